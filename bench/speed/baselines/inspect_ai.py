"""Scripted episodes of three calls in Inspect AI, for `finbench speed driver`: a program.

It is run by a Python that has `inspect_ai`, so it imports nothing of this project. It only runs the
project's file that measures memory, so that both sides are measured alike. Its mock model calls a
local tool three times, one call after another, and answers; the tool returns the given texts. The
log is written as Inspect AI does by default. At the end every sample must have its answer and the
three texts.
"""

import json
import os
import runpy
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ANSWER = "3 of 3 calls answered"
MEMORY = runpy.run_path(str(Path(__file__).parents[3] / "manifests" / "common" / "memory.py"))


def task(settings: dict[str, Any]) -> Any:
    """Samples in the given number, each solved by a model that may use the tool."""
    datasets, solvers = import_module("inspect_ai.dataset"), import_module("inspect_ai.solver")

    def price_history() -> Any:
        async def execute(symbol: str, start_date: str, end_date: str) -> str:  # noqa: ARG001
            """Daily prices of a stock.

            Args:
                symbol: The stock.
                start_date: The first day.
                end_date: The last day.
            """
            return str(settings["outputs"][start_date])

        return execute

    tool = import_module("inspect_ai.tool").tool(price_history)
    questions = (settings["question"].format(number) for number in range(settings["episodes"]))
    samples = [datasets.Sample(input=question, target=ANSWER) for question in questions]
    steps = [solvers.use_tools(tool()), solvers.generate()]
    return import_module("inspect_ai").Task(datasets.MemoryDataset(samples), solver=steps)


def model(settings: dict[str, Any]) -> Any:
    """The mock model, which acts by the number of outputs it was given. It reports its usage;
    otherwise Inspect AI would count tokens with a vocabulary from the network.
    """
    models = import_module("inspect_ai.model")

    def complete(messages: Any, *_: Any) -> Any:
        made = sum(message.role == "tool" for message in messages)
        if made < len(settings["arguments"]):
            arguments = settings["arguments"][made]
            output = models.ModelOutput.for_tool_call("mockllm", "price_history", arguments)
        else:
            output = models.ModelOutput.from_content("mockllm", ANSWER)
        output.usage = models.ModelUsage(input_tokens=900, output_tokens=40, total_tokens=940)
        return output

    return models.get_model("mockllm/model", custom_outputs=complete)


def wrong(log: Any, settings: dict[str, Any]) -> int:
    """How many samples did not end as they should."""
    outputs = list(settings["outputs"].values())
    right: int = sum(
        sample.output.completion == ANSWER
        and [message.text for message in sample.messages if message.role == "tool"] == outputs
        for sample in log.samples or []
    )
    return int(settings["episodes"]) - right


def main(settings: dict[str, Any]) -> dict[str, float | str]:
    inspect_ai = import_module("inspect_ai")
    episodes, concurrency = settings["episodes"], min(settings["concurrency"], settings["episodes"])
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        played = {"tasks": task(settings), "model": model(settings), "log_dir": folder}
        limits = {"max_samples": concurrency, "max_connections": concurrency}
        MEMORY["forget_peak"]()
        before, cpu, started = MEMORY["rss_bytes"](), time.process_time(), time.perf_counter()
        (log,) = inspect_ai.eval(**played, **limits, display="none")
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
        memory = MEMORY["peak_rss_bytes"]() - before
        written = sum(file.stat().st_size for file in Path(folder).iterdir())
        missed = wrong(log, settings)  # reads the log, which is deleted with the folder
    if log.status != "success" or missed:
        raise SystemExit(f"Inspect AI: {log.status}, {missed} wrong samples; {log.error}")
    return {
        "version": str(inspect_ai.__version__),
        "episodes_per_s": episodes / wall_s,
        "cpu_ms_per_episode": cpu_s / episodes * 1e3,
        "kb_per_concurrent_episode": memory / concurrency / 1e3,
        "log_bytes_per_episode": written / episodes,
    }


if __name__ == "__main__":
    figures = main(json.loads(Path(sys.argv[1]).read_text()))
    os.write(1, json.dumps(figures).encode())
