"""Resumes a run that was interrupted.

An episode is finished when its record, the records of all its calls and, if the run has a judge,
its judgement are on disk. Before a run goes on, its directory is made as if only the finished
episodes had been run. Records of other episodes are moved to `abandoned.jsonl`, so no call counts
twice and nothing recorded is lost. Each file is replaced as a whole, so a kill at any moment leaves
readable files, and so does a full disk. On a full disk a run with nothing to move goes on as far as
it can.
"""

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter

from bench.json_lines import records
from bench.record import Ending, is_infrastructure
from bench.runs.about import RunInfo
from cache.files import own_file, replaced_file
from gateway.trace import end_of_lines

ABANDONED = "abandoned.jsonl"

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


@dataclass(slots=True)
class _Played:
    episode: str | None
    tool: str
    arguments: dict[str, Any]
    ok: bool


_Record = TypeVar("_Record", _Call, _Episode)

_EPISODE: TypeAdapter[_Episode] = TypeAdapter(_Episode)
_CALL: TypeAdapter[_Call] = TypeAdapter(_Call)
_PLAYED: TypeAdapter[_Played] = TypeAdapter(_Played)

Moves = dict[str, list[tuple[str, dict[str, Any]]]]
"""By unfinished episode, tool and arguments of the calls that made the state of its session."""


@dataclass(slots=True)
class Settled:
    """The names of finished episodes, what was played in the sessions of the others, and how many
    records were moved away.
    """

    finished: set[str] = field(default_factory=set)
    moves: Moves = field(default_factory=dict)
    abandoned: int = 0


def settle(
    path: Path, *, failed_too: bool, is_judged: bool = False, moving: Collection[str] = ()
) -> Settled:
    """Move away the records that finished episodes do not need; where the run `is_judged`, they
    have a judgement. With `failed_too` also move the episodes that failed only because of a quota,
    the gateway or the model's endpoint. `moving` are the tools whose calls change the state of a
    session. Raises `OSError`, and `JsonLinesError` where a file can't be read.
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
    if moving:
        for call, _ in records(calls, _PLAYED):
            if call.ok and call.tool in moving and call.episode not in {None, *settled.finished}:
                settled.moves.setdefault(str(call.episode), []).append((call.tool, call.arguments))
    settled.abandoned += _keep(calls, _CALL, settled.finished)
    settled.abandoned += _keep(episodes, _EPISODE, settled.finished)
    return settled


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


def _keep(file: Path, kind: TypeAdapter[_Record], finished: set[str]) -> int:
    """Keep only the records of finished episodes in a file; returns how many others were moved."""
    moved = sum(record.episode not in finished for record, _ in records(file, kind))
    if moved:
        _move(file, kind, finished)
    else:
        with open(file, "r+b", opener=own_file) as opened:
            _cut_to_whole_lines(opened)
    return moved


def _move(file: Path, kind: TypeAdapter[_Record], finished: set[str]) -> None:
    moved = file.parent / ABANDONED
    with replaced_file(file) as kept, open(moved, "a+b", opener=own_file) as abandoned:
        before = _cut_to_whole_lines(abandoned)
        try:
            for record, line in records(file, kind):
                (kept if record.episode in finished else abandoned).write(line.text + b"\n")
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
