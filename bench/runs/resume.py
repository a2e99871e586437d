"""Resumes a run that was interrupted.

An episode is finished when its record, the records of all its calls and, if the run has a judge,
its judgement are on disk. Before a run goes on, its directory is made as if only the finished
episodes had been run, and others up to their last checkpoint. All other records are moved to
`abandoned.jsonl`, so no call counts twice and nothing recorded is lost. Each file is replaced as a
whole, so a kill at any moment leaves readable files, and so does a full disk. On a full disk a run
with nothing to move goes on as far as it can.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter

from bench.json_lines import records
from bench.record import Checkpoint, Ending, is_infrastructure
from bench.runs.about import RunInfo
from cache.files import own_file, replaced_file
from gateway.trace import end_of_lines

ABANDONED, CHECKPOINTS = "abandoned.jsonl", "checkpoints.jsonl"

COMPARABLE = (
    *("suite", "suite_digest", "agent", "gateway", "seed", "think_s", "error_rates", "trace"),
    "agent_options",
    *("model", "base_url", "temperature", "max_tokens", "stream", "inject", "hard_filter"),
    *("judge", "judge_repeats", "top_k", "embeddings", "limits", "environment"),
    *("catalog_revision", "finport", "upstream", "mode", "snapshot"),
    *("simulated_seed", "simulated_latency_s", "simulated_failure_rate", "simulated_hang_rate"),
)
"""Fields of `run.json` that must be equal in two parts of one run."""


@dataclass(slots=True)
class _Made:
    """The fields of a call in an episode's record that this module needs."""

    call_id: str
    step: int
    ok: bool
    fault: str | None


@dataclass(slots=True)
class _Episode:
    episode: str
    tool_calls: list[_Made]
    ending: str = ""
    judgement: object = None


@dataclass(slots=True)
class _Call:
    episode: str | None
    call_id: str


_Record = TypeVar("_Record", _Call, _Episode, Checkpoint)

_EPISODE: TypeAdapter[_Episode] = TypeAdapter(_Episode)
_CALL: TypeAdapter[_Call] = TypeAdapter(_Call)
_CHECKPOINT: TypeAdapter[Checkpoint] = TypeAdapter(Checkpoint)

Begun = dict[str, list[Checkpoint]]
"""By unfinished episode, its checkpoints."""


@dataclass(slots=True)
class Settled:
    """The names of finished episodes, the checkpoints of the others and how many these are, and how
    many records were moved away.
    """

    finished: set[str] = field(default_factory=set)
    begun: Begun = field(default_factory=dict)
    interrupted: int = 0
    abandoned: int = 0


def settle(
    path: Path, *, failed_too: bool, is_judged: bool = False, has_checkpoints: bool = False
) -> Settled:
    """Move away the records that neither finished episodes nor checkpoints need; where the run
    `is_judged`, finished episodes have a judgement. With `failed_too` also move the episodes that
    failed only because of a quota, the gateway or the model's endpoint. Raises `OSError`, and
    `JsonLinesError` where a file can't be read.
    """
    settled = Settled()
    calls, episodes = path / "calls.jsonl", path / "episodes.jsonl"
    made = Counter(record.episode for record, _ in records(calls, _CALL))
    for record, _ in records(episodes, _EPISODE):
        recorded = sum(bool(call.call_id) for call in record.tool_calls)
        if is_judged and record.judgement is None:
            continue
        if made[record.episode] >= recorded and not (failed_too and _is_infrastructure(record)):
            settled.finished.add(record.episode)
    finished, kept = settled.finished, set[str]()
    settled.interrupted = len(made.keys() - finished - {None})
    if has_checkpoints:
        settled.begun = _begun(path, finished)
        for checkpoints in settled.begun.values():
            kept.update(*map(_call_ids, checkpoints))
        settled.abandoned += _keep(
            path / CHECKPOINTS,
            _CHECKPOINT,
            lambda one: one.episode in finished or kept >= _call_ids(one),
        )
    settled.abandoned += _keep(
        calls, _CALL, lambda call: call.episode in finished or call.call_id in kept
    )
    settled.abandoned += _keep(episodes, _EPISODE, lambda record: record.episode in finished)
    return settled


def _begun(path: Path, finished: set[str]) -> Begun:
    """The checkpoints of unfinished episodes, as far as the records of their calls are on disk."""
    known = {
        call.call_id
        for call, _ in records(path / "calls.jsonl", _CALL)
        if call.episode not in finished
    }
    found: Begun = {}
    torn = set[str]()
    for checkpoint, _ in records(path / CHECKPOINTS, _CHECKPOINT):
        name = checkpoint.episode
        if name in finished or name in torn:
            continue
        if known >= _call_ids(checkpoint):
            found.setdefault(name, []).append(checkpoint)
        else:
            torn.add(name)
    return found


def _call_ids(checkpoint: Checkpoint) -> set[str]:
    return {call.call_id for call in checkpoint.tool_calls if call.call_id}


def differences(before: RunInfo, now: RunInfo) -> list[str]:
    """The settings in which two parts of a run differ, one text each. A setting that only one of
    them has is no difference: the first part may have been interrupted before it began, and the
    second may not know the setting yet.
    """
    recording = now.mode == "record"  # its snapshot gets an id only at the end
    names = [name for name in COMPARABLE if not (recording and name == "snapshot")]
    first, second = (
        _flat({name: said[name] for name in names if name in said})
        for said in (before.content, now.content)
    )
    return [
        f"{name} was {first[name]!r} and is {second[name]!r}"
        for name in first
        if name in second and first[name] != second[name]
    ]


def _flat(about: dict[str, Any]) -> dict[str, Any]:
    """Nested settings as single ones: `limits.rounds`, not `limits`."""
    flat: dict[str, Any] = {}
    for name, value in about.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{part}": of_part for part, of_part in value.items()}
        else:
            flat[name] = value
    return flat


def _is_infrastructure(record: _Episode) -> bool:
    if record.ending == Ending.MODEL_ERROR:
        return True
    last = max((call.step for call in record.tool_calls), default=0)
    failed = [c.fault for c in record.tool_calls if c.step == last and not c.ok]
    return is_infrastructure(failed)


def _keep(file: Path, kind: TypeAdapter[_Record], is_needed: Callable[[_Record], bool]) -> int:
    """Keep only the records in a file that are needed; returns how many others were moved."""
    moved = sum(not is_needed(record) for record, _ in records(file, kind))
    if moved:
        _move(file, kind, is_needed)
    else:
        with open(file, "r+b", opener=own_file) as opened:
            _cut_to_whole_lines(opened)
    return moved


def _move(file: Path, kind: TypeAdapter[_Record], is_needed: Callable[[_Record], bool]) -> None:
    moved = file.parent / ABANDONED
    with replaced_file(file) as kept, open(moved, "a+b", opener=own_file) as abandoned:
        before = _cut_to_whole_lines(abandoned)
        try:
            for record, line in records(file, kind):
                (kept if is_needed(record) else abandoned).write(line.text + b"\n")
            for written in (abandoned, kept):
                written.flush()
                os.fsync(written.fileno())
        except BaseException:
            os.truncate(abandoned.fileno(), before)  # the original file still has these records
            raise


def _cut_to_whole_lines(file: BinaryIO) -> int:
    """Remove an incomplete last line, which is still in its own file; returns the new size."""
    size = end_of_lines(file, file.seek(0, os.SEEK_END))
    file.truncate(size)
    return size
