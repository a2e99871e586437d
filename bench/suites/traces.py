"""FinToolBench's trace format (arXiv 2603.08262): one JSON object a line, each an episode.

The format is what the public agent writes and the public evaluator reads. A line of ours is a
superset and is read unchanged. Other traces have no typed outcome: a call is `ok` unless the text
rule says that it failed. The reader tolerates what the evaluator tolerates. Anything else that it
can't read is an error that names its place.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from bench.json_lines import Line, values
from bench.record import Ending, EpisodeRecord
from bench.suites.files import read_each
from bench.suites.suite import Traced, TraceFormatError

PUBLIC = (
    *("id", "source_dataset", "category", "question", "tool_calls", "response"),
    *("execution_result", "error", "ground_truth", "setting", "candidate_tools"),
)
PUBLIC_CALL = ("step", "tool_name", "parameters", "output")

_EPISODE: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)


def failed_by_text(output: str | dict[str, Any]) -> bool:
    """The public evaluator's rule: an object with a truthy `error`, or a text with a word for
    failure.
    """
    if isinstance(output, dict):
        return bool(output.get("error"))
    text = output.lower()  # searching for each word takes a tenth of a search that ignores case
    return "error" in text or "exception" in text or "traceback" in text


def read_trace(
    file: Path, scores_of: Callable[[str], Collection[float]] = lambda _: ()
) -> Iterator[Traced]:
    """The episodes of a file, in order. Recorded scores are to be among those that their judge may
    give (`scores_of`), if there are any.
    Raises `TraceFormatError`, and `IncompleteLineError` after all episodes.

    A line without an `id` takes its place in the file, from 0, as id. Lines with one id are repeats
    of a task and all of them count; the public evaluator keeps only the last.
    """
    seen: Counter[str] = Counter()

    def read(value: Any, line: Line) -> Traced:
        traced = read_episode(value, str(line.number - 1), seen)
        judgement = traced.record.judgement
        scores = scores_of(judgement.judge) if judgement else ()
        for score in judgement.scores if judgement else ():
            if scores and score not in scores:
                raise ValueError(f"judgement.scores: {score} is none of {tuple(scores)}")
        return traced

    return read_each(values(file, parsed), read, TraceFormatError)


def to_public(record: EpisodeRecord) -> dict[str, Any]:
    """The fields of the public format only. A failed call has an object with `error` as output. Ids
    are unique, since the public evaluator keeps only the last of two lines with one id: from the
    second repeat on, an id is the episode's name, `{id}.{repeat}`.
    """
    line = {name: getattr(record, name) for name in PUBLIC}
    line["tool_calls"] = [
        {name: getattr(call, name) for name in PUBLIC_CALL} for call in record.tool_calls
    ]
    return {**line, "id": record.episode} if record.repeat else line


def parsed(line: bytes) -> Any:
    """The JSON of a line, also as Python writes it. Raises `ValueError` for invalid JSON,
    `RecursionError` for JSON that is nested too deep.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # Python's json module writes NaN and lone surrogates
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))


def read_episode(line: Any, place: str, seen: Counter[str]) -> Traced:
    """The episode in a line. `place` is its id if it has none, and `seen` counts the lines of each
    id. Raises `ValueError`.
    """
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    if "episode" in line:
        return Traced(_EPISODE.validate_python(line), typed=True)
    if line.keys() == {"task", "index", "answer"}:
        raise ValueError("not a trace but an answer to a task of Finova: name --suite finova")
    response = line.get("response")
    said = response if isinstance(response, list) else [response]
    task = as_text(line.get("id")) or place
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
        "response": [as_text(part) for part in said if part is not None],
        "execution_result": as_text(line.get("execution_result") or line.get("answer")),
        "error": error,
        "ending": (Ending.AGENT_ERROR if error else Ending.ANSWER).value,
    }
    seen[task] += 1
    return Traced(_EPISODE.validate_python(read), typed=all("ok" in call for call in calls))


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
        "call_id": call.get("call_id") or "",
        "elapsed_ms": 0.0,
    }


def as_text(value: Any) -> str:
    """A value as text: an object or a list as JSON, None as an empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _objects(line: dict[str, Any], field: str) -> list[dict[str, Any]]:
    value = line.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{field}: not a list")
    for place, item in enumerate(value):
        if not isinstance(item, dict):
            raise ValueError(f"{field}.{place}: not an object")
    return value
