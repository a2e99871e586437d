"""Trajectories in ATIF, Harbor's Agent Trajectory Interchange Format (its RFC 0001, version 1.8).

An episode is one trajectory: a user step with the question, an agent step for each round with its
calls and their results, and the answer. `--out NAME.jsonl` writes a trajectory a line. Any other
name is a folder that gets a file for each trajectory, `{episode}.json`. If that is not a valid file
name, its legible part is used with `~` and a hash.

Records do not say which turns had no text: the n-th text of `response` is taken as that of the n-th
turn. Requests to a model are summed up in `metrics` of the step that they led to; agents without a
model have `llm_call_count: 0`. A failed episode has no answering step, unless a model was asked for
an answer.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from bench.exports.messages import rounds_of
from bench.exports.target import begins, new_folder, write_lines
from bench.record import EpisodeRecord, ModelCallRecord, ToolCallRecord
from bench.runs.about import simulated
from bench.runs.reader import ExportError, Run, text_of

SCHEMA_VERSION = "ATIF-v1.8"

WITHOUT_MODEL = ("scripted", "replay")

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_HEAD = b'{\n  "schema_version": "ATIF-'


def write(run: Run, out: Path, *, force: bool = False) -> int:
    """Write the episodes of `run` as lines of the file `out` or as files of the folder `out`, and
    return their number. Raises `ExportError`, `RunDirectoryError` and `OSError`.
    """
    if out.suffix == ".jsonl":
        return write_lines(run, out, trajectory, force=force)
    written = 0
    with new_folder(out, _is_exported, force=force) as folder:
        for episode, _ in run.episodes():
            name = file_name(episode.episode)
            try:
                with (folder / name).open("xb") as file:
                    file.write(orjson.dumps(trajectory(run, episode), option=orjson.OPT_INDENT_2))
            except FileExistsError:
                raise ExportError(f"two episodes want the file {name!r}") from None
            written += 1
    return written


def _is_exported(file: Path) -> bool:
    return file.suffix == ".json" and begins(file, _HEAD)


def file_name(episode: str) -> str:
    """A file name without a path in it, different for each episode."""
    if _SAFE.fullmatch(episode):
        return f"{episode}.json"
    known = _UNSAFE.sub("_", episode)[:60].strip("_-")
    return f"{known}~{blake2b(episode.encode(), digest_size=8).hexdigest()}.json"


def trajectory(run: Run, episode: EpisodeRecord) -> dict[str, Any]:
    """The trajectory of one episode, as written to a file."""
    steps = _steps(run, episode)
    task = ("id", "repeat", "source_dataset", "category", "ground_truth", "labelled_tools")
    asked = episode.model_calls
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": f"{episode.episode}-{run.trace_id(episode)[:8]}",
        "trajectory_id": run.trace_id(episode),
        "agent": _given(
            name=episode.setting or "unnamed",
            version=run.about.finport or "unknown",
            model_name=run.about.model,
            extra={"candidate_tools": episode.candidate_tools},
        ),
        **_given(notes="; ".join(simulated(run.about)) or None),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": {
            "total_prompt_tokens": sum(call.input_tokens for call in asked),
            "total_completion_tokens": sum(call.output_tokens for call in asked),
            "total_cached_tokens": sum(call.cached_tokens for call in asked),
            "total_steps": len(steps),
            "extra": {"tool_calls": len(episode.tool_calls), "elapsed_ms": episode.elapsed_ms},
        },
        "extra": {
            "episode": episode.episode,
            "suite": run.about.suite or None,
            "run": run.about.digest or None,
            "upstream": run.about.upstream,
            **{name: getattr(episode, name) for name in (*task, "ending", "error")},
            "judgement": None if episode.judgement is None else episode.judgement.fields(),
        },
    }


def _steps(run: Run, episode: EpisodeRecord) -> list[dict[str, Any]]:
    began = _timestamp(episode.started_at)
    steps = [_given(timestamp=began, source="user", message=episode.question)]
    has_model = bool(episode.model_calls) or run.about.agent not in WITHOUT_MODEL
    rounds, said = rounds_of(episode.tool_calls, "call_{}", 1), episode.response
    before = 0
    for number, calls in enumerate(rounds):
        last = calls[0][1].step
        requests = [r for r in episode.model_calls if before < r.step <= last]
        steps.append(
            _given(
                timestamp=_timestamp(_first(requests) or _first([call for _, call in calls])),
                source="agent",
                message=said[number] if number < len(said) else "",
                tool_calls=[_tool_call(*call) for call in calls],
                observation={"results": [_result(*call) for call in calls]},
                **_model_use(requests, has_model),
                **_thoughts(requests),
            )
        )
        before = last
    requests = [r for r in episode.model_calls if r.step > before]
    text = "\n".join(said[len(rounds) :])
    if episode.error is None or requests or text:
        ended = episode.started_at + episode.elapsed_ms / 1e3
        steps.append(
            _given(
                timestamp=_timestamp(_first(requests) or ended),
                source="agent",
                message=episode.execution_result,
                extra={"response": text} if text else None,
                **_model_use(requests, has_model),
                **_thoughts(requests),
            )
        )
    return steps


def _thoughts(requests: Sequence[ModelCallRecord]) -> dict[str, str]:
    """What the model thought before a step, if its endpoint says it."""
    thoughts = "\n".join(request.reasoning for request in requests if request.reasoning)
    return {"reasoning_content": thoughts} if thoughts else {}


def _tool_call(name: str, call: ToolCallRecord) -> dict[str, Any]:
    return {
        "tool_call_id": name,
        "function_name": call.tool_name,
        "arguments": call.parameters,
        "extra": {"call_id": call.call_id, "at": call.at, "elapsed_ms": call.elapsed_ms},
    }


def _result(name: str, call: ToolCallRecord) -> dict[str, Any]:
    """`content` is what the agent read. If that was not the output, the output is in `extra`."""
    output = text_of(call.output)
    extra: dict[str, Any] = {
        "ok": call.ok,
        "code": call.code,
        "fault": call.fault,
        "source": call.source,
        **({} if call.observed is None else {"output": output}),
    }
    content = output if call.observed is None else call.observed
    return {"source_call_id": name, "content": content, "extra": extra}


def _model_use(requests: Sequence[ModelCallRecord], has_model: bool) -> dict[str, Any]:
    if not requests:
        return {} if has_model else {"llm_call_count": 0}
    metrics = {
        "prompt_tokens": sum(request.input_tokens for request in requests),
        "completion_tokens": sum(request.output_tokens for request in requests),
        "cached_tokens": sum(request.cached_tokens for request in requests),
        "extra": {"requests": list(requests)},
    }
    return {"model_name": requests[-1].model, "llm_call_count": len(requests), "metrics": metrics}


def _first(made: Sequence[ModelCallRecord | ToolCallRecord]) -> float | None:
    """When the first of these calls was made, if that is recorded."""
    return min((call.at for call in made if call.at), default=None)


def _timestamp(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None: ATIF omits absent values."""
    return {name: value for name, value in fields.items() if value is not None}
