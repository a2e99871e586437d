"""The replay agent: plays a recorded trace again, so that it can be scored on other data.

Each episode makes the calls of its record, round by round with the recorded arguments, and gives
the recorded answer, whatever its calls return this time. A file that is not a trace is refused
before anything is run. Memory holds one file offset for each episode.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from anyio import to_thread

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.declaration import AgentParts, AgentSettingsError, AgentType
from bench.json_lines import IncompleteLineError, JsonLinesError, line_at, values
from bench.models.client import ModelError
from bench.record import DRIVER, Ending
from bench.suites.traces import as_text
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
        places: dict[str, dict[int, int]] = {}
        try:
            for value, line in values(file, json.loads):  # not orjson: Python's json writes NaN
                try:
                    record = _object(value)
                    script_of(record)
                    repeats = places.setdefault(_task(record, str(line.number - 1)), {})
                    repeats[_repeat(record, len(repeats))] = line.offset
                except ValueError as error:
                    raise line.error(f"not a record: {error}") from error
        except IncompleteLineError as error:
            log.warning("%s", error)
        except JsonLinesError as error:
            raise AgentSettingsError(str(error)) from error
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
            record = _object(json.loads(line_at(self._file, places[repeat])))
            if _task(record, task) != task:
                raise _NoEpisode("it was changed")
            return script_of(record)
        except (OSError, ValueError, RecursionError) as error:
            text = f"{self._file.name} can't be played any more: {error}"
            raise NotRecorded(text) from error


class _NoEpisode(ValueError):
    """A line is not an episode; the text says why."""


def script_of(record: Mapping[str, Any]) -> Script:
    """What the episode in `record` did. Raises `ValueError` where it is not an episode.

    Calls with the same `step` are one round. The n-th text in `response` is taken as that of the
    n-th turn, since records do not say which turns had no text; further texts go to the last turn.
    An ending at a limit or by a fault also ends the replayed episode. The `error` of a trace
    without endings does not: it reports what upstreams answered then.
    """
    calls = record.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise _NoEpisode("tool_calls is no list of objects")
    own = [call for call in calls if _step(call) != DRIVER]
    rounds = groupby(sorted(own, key=_step), key=_step)
    turns = [Turn(calls=tuple(_call(call) for call in made)) for _, made in rounds]
    answer = as_text(record.get("execution_result") or record.get("answer"))
    ending = _ending(record, answer)
    failure: Exception | None = None
    if not ending.is_error:
        turns.append(Turn(answer=answer, ending=ending))
    elif ending is Ending.MODEL_ERROR:
        failure = ModelError(as_text(record.get("error")).removeprefix("model: "))
    else:
        text = as_text(record.get("error")) or ending.value
        failure = RecordedFailure(text.removeprefix(f"agent: {RecordedFailure.__name__}: "))
    return Script(_spoken(turns, record.get("response")), failure)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NoEpisode("not a JSON object")
    return value


def _task(record: Mapping[str, Any], place: str) -> str:
    """The id of a line; without one, its place in the file, from 0."""
    return as_text(record.get("id")) or place


def _repeat(record: Mapping[str, Any], seen: int) -> int:
    """The repeat that our format records; elsewhere lines of one id are repeats in file order."""
    repeat = record.get("repeat") if "episode" in record else seen
    if not isinstance(repeat, int) or repeat < 0:
        raise _NoEpisode("repeat is no count")
    return repeat


def _step(call: Mapping[str, Any]) -> int:
    step = call.get("step")
    if step is None:
        return 0
    if not isinstance(step, int):
        raise _NoEpisode("the step of a call is no number")
    return step


def _call(call: Mapping[str, Any]) -> ToolCall:
    """A call as it was made. One that the driver refused to make has the same problem again.

    If the recorded call was refused, its redacted values are sent as recorded, since it will be
    refused again. Otherwise the answer depended on values that are no longer known, and that is the
    call's problem.
    """
    tool, arguments = call.get("tool_name"), call.get("parameters") or {}
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        raise _NoEpisode("a call wants tool_name, a text, and parameters, an object")
    problem = None
    if call.get("call_id") == "" and call.get("code") in _NOT_LET_OUT:
        output = call.get("output")
        text = as_text(output.get("error") if isinstance(output, dict) else output)
        problem = text.removeprefix(f"{tool[:64]}: ")
    elif _is_redacted(arguments) and call.get("fault") != "agent":
        problem = "the trace does not hold the redacted values among its arguments"
    if call.get("code") != ErrorCode.INVALID_ARGUMENTS:
        arguments = completed(tool, arguments)
    return ToolCall(tool, arguments, problem)


def _is_redacted(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_redacted, value.values()))
    return bool(value == REDACTED)


def _ending(record: Mapping[str, Any], answer: str) -> Ending:
    ending = record.get("ending")
    if ending is None:
        return Ending.ANSWER if answer.strip() else Ending.EMPTY
    try:
        return Ending(ending)
    except ValueError:
        raise _NoEpisode(f"no episode ends as {ending!r}") from None


def _spoken(turns: Sequence[Turn], response: Any) -> tuple[Turn, ...]:
    """The turns with their texts."""
    texts = (
        [as_text(text) for text in response] if isinstance(response, list) else [as_text(response)]
    )
    texts += [""] * (len(turns) - len(texts))
    last = len(turns) - 1
    spoken = [*texts[:last], "\n".join(filter(None, texts[last:]))] if turns else []
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
