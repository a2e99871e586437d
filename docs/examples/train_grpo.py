"""Trains a model with TRL's GRPO on generated tasks. A gateway in this process answers its calls.

    finbench tasks make --n 1000 --difficulty 1..2 --out tasks.jsonl
    python train_grpo.py MODEL tasks.jsonl OUT --steps 20

A rollout that an outage kept from its answer has no reward, and TRL leaves it out. The file
OUT/rewards.jsonl has a line for each batch: `before`, `train` or `after`, rewards and outages.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
from anyio.from_thread import BlockingPortal, start_blocking_portal
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from finport import EpisodeRecord, Gateway, GatewaySettings, Play, Rollouts, Score, Task


class World:
    """The tasks of a file, and the gateway that they are about, on an event loop of its own."""

    def __init__(self, portal: BlockingPortal, rollouts: Rollouts, gateway: Gateway) -> None:
        self.portal = portal
        self.rollouts = rollouts
        self.tasks = rollouts.suite.tasks
        self._gateway = gateway

    @classmethod
    @contextmanager
    def open(cls, tasks: Path, **settings: Any) -> Iterator["World"]:
        with ExitStack() as parts:
            portal = parts.enter_context(start_blocking_portal())

            def opened(context: Any) -> Any:
                return parts.enter_context(portal.wrap_async_context_manager(context))

            rollouts = opened(Rollouts.open("generated", tasks))
            known = GatewaySettings(**settings, **rollouts.suite.gateway_settings)
            yield cls(portal, rollouts, opened(Gateway.open(known)))

    def play(self, task: Task) -> AbstractContextManager[Play]:
        return self.portal.wrap_async_context_manager(self.rollouts.play(task, self._gateway))

    def prompt(self, task: Task) -> list[dict[str, str]]:
        with self.play(task) as play:
            schemas = play.schemas()
        tools = "\n".join(orjson.dumps(schema["function"]).decode() for schema in schemas)
        return [{"role": "user", "content": f"{task.question}\n\nTools:\n{tools}"}]

    def scores(self, records: list[EpisodeRecord]) -> list[Score]:
        async def scored() -> list[Score]:
            return await asyncio.gather(*map(self.rollouts.score, records))

        return self.portal.call(scored)


class Market:
    """One rollout at a time. TRL offers the methods with a docstring for the model as tools."""

    def __init__(self, world: World, chars: int) -> None:
        self._world = world
        self._chars = chars

    def reset(self, number: int, **_: object) -> None:
        self._entered = self._world.play(self._world.tasks[number])
        self._play = self._entered.__enter__()

    def call_tool(self, name: str, arguments: dict) -> str:
        """Call one of the tools.

        Args:
            name: The name of the tool.
            arguments: Its arguments, by name.
        """
        return self._world.portal.call(self._play.call, name, arguments).text(self._chars)

    def _finish(self, message: dict[str, Any]) -> EpisodeRecord:
        self._play.answer("" if message.get("tool_calls") else str(message.get("content") or ""))
        self._entered.__exit__(None, None, None)
        return self._play.record


def train(options: argparse.Namespace, world: World) -> None:
    part, lines = "before", []

    def reward(completions: list, environments: list[Market], **_: object) -> list[float | None]:
        ends = zip(environments, completions, strict=True)
        scores = world.scores([market._finish(said[-1]) for market, said in ends])
        rewards = [score.reward for score in scores]
        outages = [score.outage for score in scores if score.outage is not None]
        lines.append({"part": part, "rewards": rewards, "outages": outages})
        with (options.out / "rewards.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1], ensure_ascii=False) + "\n")
        return rewards

    rows = [{"prompt": world.prompt(task), "number": n} for n, task in enumerate(world.tasks)]
    trainer = GRPOTrainer(
        options.model,
        reward,
        GRPOConfig(
            str(options.out / "model"),
            max_steps=options.steps,
            max_tool_calling_iterations=options.rounds,
            **options.trl,
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows),
        processing_class=PreTrainedTokenizerFast.from_pretrained(  # as its file says
            options.model, padding_side="left", truncation_side="left"
        ),
        environment_factory=lambda: Market(world, options.chars),
    )
    trainer.evaluate()
    part, began = "train", time.perf_counter()
    trainer.train()
    took_s, part = time.perf_counter() - began, "after"
    trainer.evaluate()
    trainer.save_model()
    told = {"steps": options.steps, "steps_per_s": round(options.steps / took_s, 3)}
    for name in ("before", "train", "after"):
        given = [one for line in lines if line["part"] == name for one in line["rewards"]]
        earned = [one for one in given if one is not None]
        told[name] = {
            "reward": round(sum(earned) / max(len(earned), 1), 4),
            "rollouts": len(given),
            "masked": len(given) - len(earned),
        }
    print(json.dumps(told))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("tasks", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chars", type=int, default=2_000, help="of each answer that it reads")
    parser.add_argument("--gateway", type=json.loads, default={}, help="settings, as JSON")
    parser.add_argument("--trl", type=json.loads, default={}, help="fields of GRPOConfig, as JSON")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {"cache_dir": options.out / "cache", **options.gateway}
    with World.open(options.tasks, **settings) as world:
        train(options, world)


if __name__ == "__main__":
    main()
