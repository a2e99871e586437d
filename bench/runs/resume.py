"""Resumes a run that was interrupted.

An episode is finished when its record, the records of all its calls and, if the run has a judge, a
valid judgement are on disk. Before a run goes on, its directory is made as if only the finished
episodes had been run, and others up to their last checkpoint. The plan decides: each of its
episodes counts once, and no other. An episode that lacks nothing but a valid judgement is not
played again: its record waits in `unjudged.jsonl`, and its calls stay. All other records are moved
to `abandoned.jsonl`, so no call counts twice and nothing recorded is lost. Each file is replaced as
a whole, so a kill at any moment leaves readable files, and so does a full disk. On a full disk a
run with nothing to move goes on as far as it can.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from bench.json_lines import ended_lines, records
from bench.record import Checkpoint, Ending, Judgement, is_infrastructure
from bench.runs.about import RunInfo
from gateway.trace import end_of_lines
from manifests.common.files import own_file, replaced_file
from manifests.common.regular_file import open_regular

ABANDONED, UNJUDGED = "abandoned.jsonl", "unjudged.jsonl"
CALLS, EPISODES, CHECKPOINTS = "calls.jsonl", "episodes.jsonl", "checkpoints.jsonl"
TRANSCRIPTS = "transcripts.jsonl"

COMPARABLE = (
    *("suite", "suite_digest", "tasks", "agent", "gateway", "seed", "think_s", "error_rates"),
    *("trace", "agent_options"),
    *("model", "base_url", "body", "headers", "stream", "inject", "hard_filter"),
    *(
        "judge",
        "judge_repeats",
        "judge_body",
        "judge_headers",
        "top_k",
        "retrieval",
        "cards",
        "embeddings",
        "limits",
        "environment",
    ),
    *("catalog_revision", "finport", "own_code", "upstream", "mode", "snapshot"),
    *(
        "simulated_seed",
        "simulated_now",
        "simulated_latency_s",
        "simulated_failure_rate",
        "simulated_hang_rate",
        "simulated_lies",
        "simulated_lie_kinds",
    ),
)
"""Fields of `run.json` that must be equal in two parts of one run."""

ENDPOINT = "judge_base_url"
"""May change: a judge that failed may be healthy elsewhere."""


@dataclass(frozen=True, slots=True)
class Resuming:
    """How a run goes on. With `failed_too` the episodes that failed only because of a quota, the
    gateway or the model's endpoint are played again. With `accept_changes` it goes on although its
    files, the user's own code or the judge's endpoint were changed.
    """

    failed_too: bool = False
    accept_changes: bool = False


@dataclass(slots=True)
class _Made:
    """The fields of a call in an episode's record that this module needs."""

    call_id: str
    step: int
    ok: bool
    fault: str | None
    code: str | None = None


@dataclass(slots=True)
class _Episode:
    episode: str
    tool_calls: list[_Made]
    ending: str = ""
    judgement: Judgement | None = None


@dataclass(slots=True)
class _Call:
    episode: str | None
    call_id: str = ""


_EPISODE: TypeAdapter[_Episode] = TypeAdapter(_Episode)
_CALL: TypeAdapter[_Call] = TypeAdapter(_Call)
_CHECKPOINT: TypeAdapter[Checkpoint] = TypeAdapter(Checkpoint)

Begun = dict[str, list[Checkpoint]]
"""By unfinished episode, its checkpoints."""


@dataclass(slots=True)
class Settled:
    """The names of finished episodes; where the records of the `unjudged` ones are in
    `unjudged.jsonl`; the checkpoints of the others, and how many of these were interrupted. How
    many records were moved to `abandoned.jsonl` because they are `strange`: not of the plan, or
    there twice.
    """

    finished: set[str] = field(default_factory=set)
    unjudged: dict[str, int] = field(default_factory=dict)
    begun: Begun = field(default_factory=dict)
    interrupted: int = 0
    strange: int = 0


def settle(
    path: Path,
    *,
    failed_too: bool,
    is_judged: bool = False,
    has_checkpoints: bool = False,
    planned: Collection[str] | None = None,
) -> Settled:
    """Move away the records that neither finished episodes nor checkpoints need; where the run
    `is_judged`, finished episodes have a valid judgement. With `failed_too` also move the episodes
    that failed only because of a quota, the gateway or the model's endpoint. `planned` are the
    names of all episodes of the run; None stands for any.

    Raises `OSError`, and `JsonLinesError` where a file can't be read.
    """
    settled = Settled()
    made = Counter(call.episode for call, _ in records(path / CALLS, _CALL))
    unjudged: dict[str, int] = {}
    seen, doubled = set[str](), set[str]()
    moved: dict[int, str] = {}
    for record, line in records(path / EPISODES, _EPISODE):
        name, recorded = record.episode, sum(bool(call.call_id) for call in record.tool_calls)
        moved[line.offset] = ABANDONED
        if (planned is not None and name not in planned) or name in settled.finished:
            settled.strange += 1
            continue
        seen.add(name)
        if made[name] > recorded:
            doubled.add(name)
        if made[name] < recorded or (failed_too and _is_infrastructure(record)):
            continue
        if is_judged and not (record.judgement and record.judgement.is_valid):
            unjudged[name] = line.offset
        else:
            settled.finished.add(name)
            del moved[line.offset]
    for name in unjudged.keys() - settled.finished:
        moved[unjudged[name]] = UNJUDGED
    played = settled.finished | unjudged.keys() | (_waiting(path, planned) - seen)
    settled.interrupted = len(made.keys() - played - {None})
    needed = set[str]()
    if has_checkpoints:
        settled.begun = _begun(path, played)
        for checkpoints in settled.begun.values():
            needed.update(*map(_call_ids, checkpoints))
        _move(
            path / CHECKPOINTS,
            {
                line.offset: ABANDONED
                for one, line in records(path / CHECKPOINTS, _CHECKPOINT)
                if not (one.episode in played or needed >= _call_ids(one))
            },
        )
    ids = set[str]()
    moved_calls: dict[int, str] = {}
    for call, line in records(path / CALLS, _CALL):
        is_again = call.episode in doubled and call.call_id in ids
        if call.episode in doubled:
            ids.add(call.call_id)
        is_planned = planned is None or call.episode is None or call.episode in planned
        settled.strange += is_again or not is_planned
        if is_again or not (call.episode in played or call.call_id in needed):
            moved_calls[line.offset] = ABANDONED
    _move(path / CALLS, moved_calls)
    _move(path / EPISODES, moved)
    if waiting := played - settled.finished:
        for record, line in records(path / UNJUDGED, _EPISODE):
            if record.episode in waiting:
                settled.unjudged[record.episode] = line.offset  # of several, the last
    return settled


def _waiting(path: Path, planned: Collection[str] | None) -> set[str]:
    """The episodes whose records have waited for a judgement since an earlier part of the run."""
    file = path / UNJUDGED
    names = {one.episode for one, _ in records(file, _EPISODE)} if file.exists() else set()
    return {name for name in names if planned is None or name in planned}


def _begun(path: Path, played: Collection[str]) -> Begun:
    """The checkpoints of unfinished episodes, as far as the records of their calls are on disk."""
    known = {call.call_id for call, _ in records(path / CALLS, _CALL) if call.episode not in played}
    found: Begun = {}
    torn = set[str]()
    for checkpoint, _ in records(path / CHECKPOINTS, _CHECKPOINT):
        name = checkpoint.episode
        if name in played or name in torn:
            continue
        if known >= _call_ids(checkpoint):
            found.setdefault(name, []).append(checkpoint)
        else:
            torn.add(name)
    return found


def _call_ids(checkpoint: Checkpoint) -> set[str]:
    return {call.call_id for call in checkpoint.tool_calls if call.call_id}


def changes(path: Path, before: RunInfo) -> list[str]:
    """How files of records differ from what the run has written, one text each. What was appended
    since, as by a run that was killed, is no change. Raises `OSError`.
    """
    found = []
    for name, written in before.files.items():
        digest, size = blake2b(digest_size=16), written.bytes
        with open_regular(path / name) as file:
            while size and (text := file.read(min(size, 2**20))):
                digest.update(text)
                size -= len(text)
        if size:
            found.append(f"{name} lacks {size} of the {written.bytes} bytes that were written")
        elif digest.hexdigest() != written.digest:
            found.append(f"{name} has other content than was written")
    return found


def outside_digests(path: Path, before: RunInfo) -> dict[str, int]:
    """By file, how many whole lines no digest in `run.json` covers, as those that were written last
    before a kill. Raises `OSError`.
    """
    found = {}
    for name in (CALLS, EPISODES, CHECKPOINTS, UNJUDGED, TRANSCRIPTS):
        if not (path / name).exists():
            continue
        with open_regular(path / name) as file:
            file.seek(before.files[name].bytes if name in before.files else 0)
            if lines := sum(text.count(b"\n") for text in iter(lambda: file.read(2**20), b"")):
                found[name] = lines
    return found


def changed_around(before: RunInfo, now: RunInfo) -> list[str]:
    """The files of the user's own code that are not what they were, and the judge's endpoint if it
    is another, one text each.
    """
    changed = [
        f"{name} was changed"
        for name, digest in before.own_code.items()
        if now.own_code.get(name, digest) != digest
    ]
    asked, asks = before.content.get(ENDPOINT), now.content.get(ENDPOINT)
    if asked and asks and asked != asks:
        changed.append(f"{ENDPOINT} was {asked!r} and is {asks!r}")
    return changed


def differences(before: RunInfo, now: RunInfo) -> list[str]:
    """The settings in which two parts of a run differ, one text each. A setting that only one of
    them has is no difference: the first part may have been interrupted before it began, and the
    second may not know the setting yet. `changed_around` tells of code and of judges' endpoints.
    """
    recording = now.mode == "record"  # its snapshot gets an id only at the end
    left_out = ("own_code", *(("snapshot",) if recording else ()))
    names = [name for name in COMPARABLE if name not in left_out]
    first, second = (
        _flat({name: said[name] for name in names if name in said})
        for said in (before.content, now.content)
    )
    return [
        f"{name} was {first[name]!r} and is {second[name]!r}"
        for name in first
        if name in second and first[name] != second[name]
    ]


_WHOLE = frozenset({"body", "headers", "judge_body", "judge_headers"})
"""Settings that differ also by what they lack."""


def _flat(about: dict[str, Any]) -> dict[str, Any]:
    """Nested settings as single ones: `limits.rounds`, not `limits`."""
    flat: dict[str, Any] = {}
    for name, value in about.items():
        if isinstance(value, dict) and name not in _WHOLE:
            flat |= {f"{name}.{part}": of_part for part, of_part in value.items()}
        else:
            flat[name] = value
    return flat


def _is_infrastructure(record: _Episode) -> bool:
    if record.ending == Ending.MODEL_ERROR:
        return True
    last = max((call.step for call in record.tool_calls), default=0)
    failed = [c for c in record.tool_calls if c.step == last and not c.ok]
    return is_infrastructure(failed)


def _move(file: Path, moved: Mapping[int, str]) -> None:
    """Move lines, by their place in the file, to the end of the files beside it with these names.
    An incomplete last line is removed.
    """
    if not moved:
        with open(file, "r+b", opener=own_file) as opened:
            _cut_to_whole_lines(opened)
        return
    with replaced_file(file) as left, ExitStack() as stack:
        others = {
            name: stack.enter_context(open(file.parent / name, "a+b", opener=own_file))
            for name in {*moved.values()}
        }
        before = {name: _cut_to_whole_lines(other) for name, other in others.items()}
        try:
            for line in ended_lines(file):
                name = moved.get(line.offset)
                (left if name is None else others[name]).write(line.text + b"\n")
            for written in (*others.values(), left):
                written.flush()
                os.fsync(written.fileno())
        except BaseException:
            for name, other in others.items():  # the original file still has these records
                os.truncate(other.fileno(), before[name])
            raise


def _cut_to_whole_lines(file: BinaryIO) -> int:
    """Remove an incomplete last line, which is still in its own file; returns the new size."""
    size = end_of_lines(file, file.seek(0, os.SEEK_END))
    file.truncate(size)
    return size
