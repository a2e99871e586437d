"""FinToolBench's trace format (arXiv 2603.08262): one JSON object a line, each an episode.

The format is what the public agent writes and the public evaluator reads. A line of ours is a
superset and is read unchanged. Other traces have no typed outcome: a call is `ok` unless the text
rule says that it failed. The reader tolerates what the evaluator tolerates. Anything else that it
can't read is an error that names its place.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from bench.json_lines import JsonLinesError, values
from bench.record import Ending, EpisodeRecord
from bench.suites.suite import Traced, TraceFormatError
from manifests.common.problem import first_problem

PUBLIC = (
    *("id", "source_dataset", "category", "question", "tool_calls", "response"),
    *("execution_result", "error", "ground_truth", "setting", "candidate_tools"),
)
PUBLIC_CALL = ("step", "tool_name", "parameters", "output")

_FAILURE_WORDS = ("error", "exception", "traceback")

_EPISODE: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)


def failed_by_text(output: str | dict[str, Any]) -> bool:
    """The public evaluator's rule: an object with a truthy `error`, or a text with a word for
    failure.
    """
    if isinstance(output, dict):
        return bool(output.get("error"))
    text = output.lower()  # searching for each word takes a tenth of a search that ignores case
    return any(map(text.__contains__, _FAILURE_WORDS))


def read_trace(file: Path, scores: Collection[float] = ()) -> Iterator[Traced]:
    """The episodes of a file, in order. Recorded scores are to be among `scores`, if there are any.
    Raises `TraceFormatError`, and `IncompleteLineError` after all episodes.

    A line without an `id` takes its place in the file, from 0, as id. Lines with one id are repeats
    of a task and all of them count; the public evaluator keeps only the last.
    """
    seen: Counter[str] = Counter()
    try:
        for value, line in values(file, _parsed):
            try:
                yield _read(value, line.number - 1, seen, scores)
            except _FieldError as error:
                raise line.error(str(error)) from error
            except ValidationError as error:
                raise line.error(first_problem(error)) from error
    except JsonLinesError as error:
        raise TraceFormatError(str(error)) from error


def to_public(record: EpisodeRecord) -> dict[str, Any]:
    """The fields of the public format only. A failed call has an object with `error` as output."""
    line = {name: getattr(record, name) for name in PUBLIC}
    line["tool_calls"] = [
        {name: getattr(call, name) for name in PUBLIC_CALL} for call in record.tool_calls
    ]
    return line


def for_evaluator(record: EpisodeRecord) -> dict[str, Any]:
    """As `to_public`, with unique ids: the public evaluator keeps only the last of two lines with
    one id. From the second repeat on, an id is the episode's name, `{id}.{repeat}`.
    """
    line = to_public(record)
    return {**line, "id": record.episode} if record.repeat else line


class _FieldError(Exception):
    """A field can't be read; the text says which and why."""


def _parsed(line: bytes) -> Any:
    """Raises `ValueError` for invalid JSON, `RecursionError` for JSON that is nested too deep."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # Python's json module writes NaN and lone surrogates
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))


def _read(line: Any, index: int, seen: Counter[str], scores: Collection[float]) -> Traced:
    if not isinstance(line, dict):
        raise _FieldError("not a JSON object")
    if "episode" in line:
        return Traced(_ours(line, scores), typed=True)
    if line.keys() == {"task", "index", "answer"}:
        raise _FieldError("not a trace but an answer to a task of Finova: name --suite finova")
    task = as_text(line.get("id")) or str(index)
    error = as_text(line["error"]) if line.get("error") else None
    calls = _objects(line, "tool_calls")
    read = {
        "episode": f"{task}.{seen[task]}",
        "id": task,
        "repeat": seen[task],
        "source_dataset": as_text(line.get("source_dataset")),
        "category": as_text(line.get("category")),
        "question": as_text(line.get("question") or line.get("query")),
        "setting": as_text(line.get("setting")),
        "ground_truth": as_text(line.get("ground_truth")),
        "candidate_tools": line.get("candidate_tools") or [],
        "labelled_tools": line.get("labelled_tools") or line.get("select_tools") or [],
        "started_at": 0.0,
        "tool_calls": [_call(call) for call in calls],
        "response": [as_text(part) for part in _list(line.get("response")) if part is not None],
        "execution_result": as_text(line.get("execution_result") or line.get("answer")),
        "error": error,
        "ending": (Ending.AGENT_ERROR if error else Ending.ANSWER).value,
    }
    seen[task] += 1
    return Traced(_EPISODE.validate_python(read), typed=all("ok" in call for call in calls))


def _ours(line: dict[str, Any], scores: Collection[float]) -> EpisodeRecord:
    record = _EPISODE.validate_python(line)
    for score in record.judgement.scores if record.judgement else ():
        if scores and score not in scores:
            raise _FieldError(f"judgement.scores: {score} is none of {tuple(scores)}")
    return record


def _call(call: dict[str, Any]) -> dict[str, Any]:
    output = call.get("output")
    if isinstance(output, list):  # neither a text nor an object with `error`: no rule fails it
        output = {"items": output}
    if not isinstance(output, dict):
        output = as_text(output)
    step, parameters = call.get("step"), call.get("parameters")
    return {
        "step": 0 if step is None else step,
        "tool_name": as_text(call.get("tool_name")),
        "parameters": {} if parameters is None else parameters,
        "output": output,
        "ok": call["ok"] if "ok" in call else not failed_by_text(output),
        "code": call.get("code"),
        "fault": call.get("fault"),
        "source": call.get("source"),
        "call_id": "",
        "elapsed_ms": 0.0,
    }


def as_text(value: Any) -> str:
    """A value as text: an object or a list as JSON, None as an empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _objects(line: dict[str, Any], field: str) -> list[dict[str, Any]]:
    value = line.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _FieldError(f"{field}: not a list")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise _FieldError(f"{field}.{place}: not an object")
    return value
