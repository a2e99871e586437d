"""The episodes that a report shows in full: first those that did not pass, then by order, up to a
limit.

Their JSON is safe inside a script element of HTML: it can neither end the element nor open a
comment. Long texts are cut and marked as cut.
"""

from typing import Any

import orjson

from bench.record import (
    EpisodeRecord,
    FailedJudgement,
    ModelCallRecord,
    ToolCallRecord,
    storable,
)
from manifests.common.terminal import plain

TEXT_CHARS = 4_000
"""The longest text of an episode in a page."""

LINE_CHARS = 80
"""JSON up to this length is written on one line."""

_HARMFUL = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class Trajectories:
    """The episodes to show; at most `limit` are in memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.episodes = 0
        self._failed: list[dict[str, Any]] = []
        self._passed: list[dict[str, Any]] = []

    def add(self, episode: EpisodeRecord, *, passed: bool, infrastructure: bool) -> None:
        self.episodes += 1
        kept = self._passed if passed else self._failed
        room = self.limit - len(self._failed) - (len(self._passed) if passed else 0)
        if room > 0:
            kept.append(_shown(episode, passed, infrastructure))
            del self._passed[max(self.limit - len(self._failed), 0) :]

    def __len__(self) -> int:
        return len(self._failed) + len(self._passed)

    def json(self) -> str:
        """An array for `<script type="application/json">`."""
        return script_safe([*self._failed, *self._passed])


def script_safe(value: object) -> str:
    """Equivalent JSON without characters that have a meaning in HTML or JavaScript."""
    text = orjson.dumps(value).decode()
    for character, escape in _HARMFUL.items():
        text = text.replace(character, escape)
    return text


def _shown(episode: EpisodeRecord, passed: bool, infrastructure: bool) -> dict[str, Any]:
    judged = episode.judgement
    return {
        "episode": _text(episode.episode),
        "category": _text(episode.category),
        "dataset": _text(episode.source_dataset),
        "question": _text(episode.question),
        "gold": _text(episode.ground_truth),
        "answer": _text(episode.execution_result),
        "ending": _text(episode.ending),
        "error": episode.error and _text(episode.error),
        "passed": passed,
        "infrastructure": infrastructure,
        "ms": episode.elapsed_ms,
        "candidates": []  # a run that offers no tools has the labelled ones here again
        if episode.candidate_tools == episode.labelled_tools
        else [_text(name) for name in episode.candidate_tools],
        "labelled": [_text(name) for name in episode.labelled_tools],
        "responses": [_text(text) for text in episode.response],
        "calls": [_call(call) for call in episode.tool_calls],
        "requests": [
            _request(request)
            for request in (*episode.model_calls, *(judged.model_calls if judged else ()))
        ],
        "judgement": judged
        and {
            "judge": _text(judged.judge),
            "kind": _text(judged.kind),
            "scores": judged.scores,
            "invalid": judged.invalid,
            "error": _text(judged.error) if isinstance(judged, FailedJudgement) else None,
            "tools": [
                {
                    "tool": _text(verdict.tool),
                    "timeliness": verdict.timeliness,
                    "intent": verdict.intent,
                    "domain": verdict.domain,
                }
                for verdict in judged.tools
            ],
        },
    }


def _call(call: ToolCallRecord) -> dict[str, Any]:
    return {
        "step": call.step,
        "tool": _text(call.tool_name),
        "arguments": _json(call.parameters),
        "output": _json(call.output),
        "observed": call.observed and _text(call.observed),
        "ok": call.ok,
        "code": call.code and _text(call.code),
        "fault": call.fault and _text(call.fault),
        "source": call.source and _text(call.source),
        "ms": call.elapsed_ms,
    }


def _request(request: ModelCallRecord) -> dict[str, Any]:
    return {
        "step": request.step,
        "purpose": _text(request.purpose),
        "model": _text(request.model),
        "input": request.input_tokens,
        "cached": request.cached_tokens,
        "output": request.output_tokens,
        "attempts": request.attempts,
        "ms": request.elapsed_ms,
        "finish": request.finish and _text(request.finish),
        "error": request.error and _text(request.error),
    }


def _json(value: object) -> str:
    """A value in readable form: a text or an error's text unchanged, all else as JSON."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("error"), str):
        value = value["error"]
    if isinstance(value, str):
        return _text(value)
    line = orjson.dumps(value)
    short = len(line) <= LINE_CHARS
    return _text((line if short else orjson.dumps(value, option=orjson.OPT_INDENT_2)).decode())


def _text(text: str) -> str:
    text = plain(storable(text))
    cut = len(text) - TEXT_CHARS
    return text if cut <= 0 else f"{text[:TEXT_CHARS]}… ({cut} more characters)"
