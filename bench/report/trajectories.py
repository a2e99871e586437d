"""The episodes that a report shows in full: first those that did not pass, then by order, up to a
limit.

Their JSON is safe inside a script element of HTML: it can neither end the element nor open a
comment. Long texts are cut and marked as cut.
"""

from dataclasses import is_dataclass
from typing import Any

import orjson

from bench.record import OPTIONAL, EpisodeRecord, storable
from manifests.common.terminal import plain

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
            kept.append(_shown(episode) | {"passed": passed, "infrastructure": infrastructure})
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


def _shown(value: Any) -> Any:
    """A record, or a part of one, as plain data with texts for readers."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_shown(part) for part in value]
    if not is_dataclass(value):
        return value
    return {
        name: readable(part) if name in ("parameters", "output") else _shown(part)
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
