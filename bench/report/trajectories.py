"""The episodes that a report shows in full: first those that did not pass or answered wrongly, then
by order, up to a limit.

Their JSON is safe inside a script element of HTML: it can neither end the element nor open a
comment. Long texts are cut and marked as cut.
"""

from collections.abc import Sequence
from dataclasses import is_dataclass
from itertools import takewhile
from typing import Any

import orjson

from bench.record import OPTIONAL, EpisodeRecord, storable
from bench.runs.transcripts import Exchange, Transcripts
from manifests.common.terminal import plain

TRANSCRIPT_CHARS = 30_000
"""How much of the transcript of an episode is in a page."""

TEXT_CHARS = 4_000
"""The longest text of an episode in a page."""

LINE_CHARS = 80
"""JSON up to this length is written on one line."""

_NOT_SHOWN = {
    *("id", "repeat", "setting", "started_at", "at", "call_id", "difficulty"),
    *("labelled_arguments", *OPTIONAL),
}
"""Fields of records that a page does not have."""

_HARMFUL = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class Trajectories:
    """The episodes to show; at most `limit` are in memory."""

    def __init__(self, limit: int, transcripts: Transcripts | None = None) -> None:
        self.limit = limit
        self._transcripts = transcripts
        self.episodes = 0
        self._failed: list[dict[str, Any]] = []
        self._passed: list[dict[str, Any]] = []

    def add(
        self, episode: EpisodeRecord, *, passed: bool, wrong: bool, infrastructure: bool
    ) -> None:
        """Raises `RunDirectoryError` where its transcript can't be read."""
        self.episodes += 1
        is_right = passed and not wrong
        kept = self._passed if is_right else self._failed
        room = self.limit - len(self._failed) - (len(self._passed) if is_right else 0)
        if room > 0:
            about: dict[str, Any] = {"passed": passed, "wrong": wrong}
            about["infrastructure"] = infrastructure
            if self._transcripts:
                not_kept = self._transcripts.left_out(episode)
                about["transcript"] = transcript(self._transcripts.of(episode), not_kept)
            kept.append(shown(episode) | about)
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


def transcript(
    exchanges: Sequence[Exchange], not_kept: int, room: int = TRANSCRIPT_CHARS
) -> list[dict[str, Any]]:
    """The requests of an episode for readers, each without the messages and tools that the one
    before it had too; as many as there is `room` for, in characters. `not_kept` are further ones,
    which no file has.
    """
    found: list[dict[str, Any]] = []
    before, has_answer = list[Any](), False
    offered: list[Any] = []
    for number, one in enumerate(exchanges):
        pairs = zip(before, one.messages, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if 0 < same == len(before) < len(one.messages) and has_answer:  # its answer was shown
            same += _role(one.messages[same]) == "assistant"
        before, has_answer = one.messages, one.answer is not None
        said = [_message(message) for message in one.messages[same:]]
        if one.answer is not None:
            said.append(_message({"role": "assistant", **one.answer}))
        if one.error is not None:
            said.append({"role": "error", "text": _text(one.error)})
        room -= sum(len(message["text"]) for message in said)
        if room < 0 and found:
            found.append({"left_out": len(exchanges) - number})
            break
        tools = [] if one.tools == offered else [_name(tool) for tool in one.tools]
        offered = one.tools
        about = {"step": one.step, "purpose": one.purpose, "model": one.model}
        found.append({**about, "kept": same, "tools": tools, "said": said})
    if not_kept:
        found.append({"not_kept": not_kept})
    return found


def _role(message: Any) -> str:
    return _text(str(message.get("role"))) if isinstance(message, dict) else "unknown"


def _name(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    return _text(str(function.get("name"))) if isinstance(function, dict) else "unknown"


def _message(message: Any) -> dict[str, str]:
    """A message as its role and one text, with its calls."""
    if not isinstance(message, dict):
        return {"role": _role(message), "text": readable(message)}
    parts = []
    for name in ("reasoning", "content", "refusal"):
        if value := message.get(name):
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            parts.append(f"({name})\n{text}" if name == "reasoning" else text)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        made = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(made, dict):
            parts.append(f"-> {made.get('name')} {made.get('arguments')}")
    return {"role": _role(message), "text": _text("\n".join(parts))}


def shown(value: Any) -> Any:
    """A record, or a part of one, as plain data with texts for readers."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [shown(part) for part in value]
    if not is_dataclass(value):
        return value
    return {
        name: readable(part) if name in ("parameters", "output") else shown(part)
        for name, part in vars(value).items()
        if name not in _NOT_SHOWN
    }


def readable(value: object, most: int = TEXT_CHARS) -> str:
    """A value in readable form, cut to `most` characters: a text or an error's text unchanged, all
    else as JSON.
    """
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("error"), str):
        value = value["error"]
    if isinstance(value, str):
        return _text(value, most)
    line = orjson.dumps(value)
    short = len(line) <= LINE_CHARS
    text = line if short else orjson.dumps(value, option=orjson.OPT_INDENT_2)
    return _text(text.decode(), most)


def _text(text: str, most: int = TEXT_CHARS) -> str:
    text = plain(storable(text))
    cut = len(text) - most
    return text if cut <= 0 else f"{text[:most]}… ({cut} more characters)"
