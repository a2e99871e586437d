"""The replay agent: plays a recorded trace again, so that it can be scored on other data.

Each episode makes the calls of its record, round by round with the recorded arguments, and gives
the recorded answer, whatever its calls return this time. A file that is not a trace is refused
before anything is run. Memory holds one file offset for each episode.
"""

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from anyio import to_thread

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.declaration import AgentParts, AgentSettingsError, AgentType
from bench.json_lines import IncompleteLineError, Line, line_at, values
from bench.models.client import ModelError
from bench.record import Ending, EpisodeRecord, ToolCallRecord
from bench.suites.files import read_each
from bench.suites.traces import as_text, parsed, read_episode
from bench.task import completed
from gateway import ErrorCode
from gateway.pipeline.bind import REDACTED

log = logging.getLogger("finport")

_NOT_LET_OUT = (ErrorCode.INVALID_ARGUMENTS, ErrorCode.INVALID_REQUEST)


class NotRecorded(Exception):
    """The trace does not have this episode."""


class RecordedFailure(Exception):
    """The recorded episode ended here with an error; the text is that error."""


@dataclass(frozen=True, slots=True)
class Script:
    """What an episode did: its turns and, if it gave no answer, the reason."""

    turns: tuple[Turn, ...]
    failure: Exception | None = None


class ReplayAgent:
    """Plays the episodes of one file. Made by `ReplayAgent.read`.

    An episode is looked up by task and repeat. For a repeat that is not recorded, it plays the
    recorded repeat at that number modulo how many are recorded. A task that is not recorded ends
    its episode with `NotRecorded`.
    """

    name = "replay"

    def __init__(self, file: Path, places: Mapping[str, Mapping[int, int]]) -> None:
        """`places` are the offsets of lines by task id and repeat."""
        self._file = file
        self._places = places

    @classmethod
    def read(cls, path: Path) -> "ReplayAgent":
        """Read the trace in a run directory or in a file of JSON Lines, whose lines are episodes in
        our format or in FinToolBench's.

        An incomplete last line is left out and logged. Raises `AgentSettingsError`.
        """
        file = path / "episodes.jsonl" if path.is_dir() else path
        places: defaultdict[str, dict[int, int]] = defaultdict(dict)
        seen: Counter[str] = Counter()

        def read(value: Any, line: Line) -> None:
            record, _ = _read(value, str(line.number - 1), seen)
            places[record.id][record.repeat] = line.offset

        try:
            deque(read_each(values(file, parsed), read, AgentSettingsError), maxlen=0)
        except IncompleteLineError as error:
            log.warning("%s", error)
        if not places:
            raise AgentSettingsError(f"{file} holds no episodes")
        return cls(file, places)

    async def act(self, episode: Episode) -> Turn:
        """Raises `NotRecorded`. At the end of a failed episode it raises `ModelError` if the
        recorded failure was the model's, else `RecordedFailure`.
        """
        if episode.memory is None:
            episode.memory = await to_thread.run_sync(self._find, episode.task.id, episode.repeat)
        script: Script = episode.memory
        if len(episode.history) < len(script.turns):
            return script.turns[len(episode.history)]
        raise script.failure or RecordedFailure("the trace has no further turn")

    def _find(self, task: str, repeat: int) -> Script:
        places = self._places.get(task)
        if places is None:
            raise NotRecorded(f"the trace has no task {task!r}")
        if repeat not in places:
            repeat = sorted(places)[repeat % len(places)]
        try:
            record, script = _read(parsed(line_at(self._file, places[repeat])), task, Counter())
            if record.id != task:
                raise ValueError("it was changed")
            return script
        except (OSError, ValueError, RecursionError) as error:
            text = f"{self._file.name} can't be played any more: {error}"
            raise NotRecorded(text) from error


def script_of(record: EpisodeRecord, response: Sequence[str] | None = None) -> Script:
    """What an episode did. `response` has the texts of its turns, if not as the record has them.

    Calls with the same `step` are one round. The n-th text is taken as that of the n-th turn, since
    records do not say which turns had no text; further texts go to the last turn. An ending at a
    limit or by a fault also ends the replayed episode. Raises `ValueError` for an unknown ending.
    """
    if record.ending not in [*Ending]:
        raise ValueError(f"no episode ends as {record.ending!r}")
    ending = Ending(record.ending)
    step = attrgetter("step")
    rounds = groupby(sorted(record.agent_calls, key=step), key=step)
    turns = [Turn(calls=tuple(map(_call, made))) for _, made in rounds]
    failure: Exception | None = None
    if not ending.is_error:
        turns.append(Turn(answer=record.execution_result, ending=ending))
    elif ending is Ending.MODEL_ERROR:
        failure = ModelError((record.error or "").removeprefix("model: "))
    else:
        text = record.error or ending.value
        failure = RecordedFailure(text.removeprefix(f"agent: {RecordedFailure.__name__}: "))
    return Script(_spoken(turns, record.response if response is None else response), failure)


def _read(value: Any, place: str, seen: Counter[str]) -> tuple[EpisodeRecord, Script]:
    """An episode with its script. The `error` of a trace without endings does not end it: it
    reports what upstreams answered then. Raises `ValueError`.
    """
    record = read_episode(value, place, seen).record
    if "episode" in value:
        return record, script_of(record)
    if not all(call.tool_name for call in record.tool_calls):
        raise ValueError("a call wants tool_name")
    texts = value.get("response")
    spoken = map(as_text, texts) if isinstance(texts, list) else [as_text(texts)]
    ending = value.get("ending", "answer" if record.execution_result.strip() else "empty")
    return record, script_of(replace(record, error=None, ending=ending), [*spoken])


def _call(call: ToolCallRecord) -> ToolCall:
    """A call as it was made. One that the driver refused to make has the same problem again.

    If the recorded call was refused, its redacted values are sent as recorded, since it will be
    refused again. Otherwise the answer depended on values that are no longer known, and that is the
    call's problem.
    """
    tool, arguments = call.tool_name, call.parameters
    problem = None
    if not call.call_id and call.code in _NOT_LET_OUT:
        text = as_text(call.output.get("error") if isinstance(call.output, dict) else call.output)
        problem = text.removeprefix(f"{tool[:64]}: ")
    elif _is_redacted(arguments) and call.fault != "agent":
        problem = "the trace does not hold the redacted values among its arguments"
    if call.code != ErrorCode.INVALID_ARGUMENTS:
        arguments = completed(tool, arguments)
    return ToolCall(tool, arguments, problem)


def _is_redacted(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_redacted, value.values()))
    return bool(value == REDACTED)


def _spoken(turns: Sequence[Turn], texts: Sequence[str]) -> tuple[Turn, ...]:
    """The turns with their texts."""
    last = len(turns) - 1
    padded = [*texts, *[""] * (len(turns) - len(texts))]
    spoken = [*padded[:last], "\n".join(filter(None, padded[last:]))] if turns else []
    return tuple(replace(turn, response=text) for turn, text in zip(turns, spoken, strict=True))


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`trace` is the run directory or trace file to play."""

    trace: Path | None = None

    def __post_init__(self) -> None:
        if self.trace is None:
            raise ValueError("--trace names what it plays")


async def _make(options: ReplayOptions, _parts: AgentParts) -> ReplayAgent:
    assert options.trace is not None  # noqa: S101 - checked when the options were made
    return await to_thread.run_sync(ReplayAgent.read, options.trace)


REPLAY = AgentType(
    "replay", "plays a recorded trace again", _make, ReplayOptions, reads_answers=False
)
