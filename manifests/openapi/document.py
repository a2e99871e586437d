"""Reads the text of an OpenAPI document, JSON or YAML, within bounds of size, depth and time.

YAML is read event by event, so that depth and the expansion of aliases are counted before anything
is built. Its plain scalars mean what they mean in YAML 1.2: `no` and `2024-01-31` are texts.
"""

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from manifests.formats import short

MAX_BYTES: Final = 32 * 2**20
MAX_VALUES: Final = 4_000_000
"""The most values of a document, with all aliases replaced by what they stand for."""

MAX_DEPTH: Final = 200
READ_S: Final = 60.0

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_BASED = re.compile(r"0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {"true": True, "True": True, "TRUE": True} | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_YAML: Final = "tag:yaml.org,2002:"


class OpenApiError(Exception):
    """A document can't be imported; the text says why."""


def read_document(text: bytes, read_s: float = READ_S) -> dict[str, Any]:
    """The document in a text. Raises `OpenApiError`."""
    if len(text) > MAX_BYTES:
        raise OpenApiError(f"it is over {MAX_BYTES // 2**20} MiB")
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        read = _of_json(start) if start.startswith(b"{") else _of_yaml(text, read_s)
    except RecursionError:
        raise OpenApiError("it is nested too deeply") from None
    if not isinstance(read, dict):
        raise OpenApiError("it is no object with the field openapi")
    version = read.get("openapi")
    if isinstance(version, str) and re.match(r"3\.[01](\.|$)", version):
        return read
    if "swagger" in read:
        raise OpenApiError("it is Swagger 2.0; convert it to OpenAPI 3.0 or 3.1 first")
    raise OpenApiError(f"OpenAPI 3.0 and 3.1 are read, not openapi {short(version)}")


def _of_json(text: bytes) -> Any:
    try:
        read = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        if b"\\ud" in text.lower():  # may be half of a surrogate pair, which no text can hold
            plain = json.dumps(read, ensure_ascii=False).encode("utf-8", "replace")
            read = json.loads(plain)
    except ValueError as error:
        raise OpenApiError(f"it is no JSON: {str(error)[:200]}") from None
    return read


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {short(twice)} stands twice in an object")
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet; `begun` counts the values before it."""

    value: Any
    anchor: str | None
    begun: int
    key: str | None = None


def _of_yaml(text: bytes, read_s: float) -> Any:
    import yaml

    until = time.monotonic() + read_s
    building = _Building()
    try:
        for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            building.take(type(event).__name__, event)
            if not number % 4096 and time.monotonic() > until:
                raise OpenApiError(f"reading it takes more than {read_s:g} s")
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())[:200]
        raise OpenApiError(f"it is no YAML: {words}") from None
    return building.root


class _Building:
    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._documents = 0

    def take(self, kind: str, event: Any) -> None:
        match kind:
            case "ScalarEvent":
                if self._awaits_key():
                    self._key(event.value)
                else:
                    self._put(_scalar(event), event.anchor, 1)
            case "MappingStartEvent" | "SequenceStartEvent":
                self._check_tag(event.tag)
                if len(self._open) >= MAX_DEPTH:
                    raise OpenApiError("it is nested too deeply")
                if self._awaits_key():
                    raise OpenApiError("a name in it is no text")
                value: Any = {} if kind == "MappingStartEvent" else []
                self._open.append(_Open(value, event.anchor, self._values))
            case "MappingEndEvent" | "SequenceEndEvent":
                ended = self._open.pop()
                size = self._values - ended.begun
                self._put(ended.value, ended.anchor, 1, size + 1)
            case "AliasEvent":
                if self._awaits_key():
                    raise OpenApiError("a name in it is an alias")
                if event.anchor not in self._anchors:
                    raise OpenApiError(f"its alias {short(event.anchor)} has no anchor before it")
                value, size = self._anchors[event.anchor]
                self._put(value, None, size)
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise OpenApiError("it holds several documents")

    def _awaits_key(self) -> bool:
        return (
            bool(self._open)
            and isinstance(self._open[-1].value, dict)
            and (self._open[-1].key is None)
        )

    def _key(self, name: str) -> None:
        top = self._open[-1]
        if name in top.value and name != "<<":
            raise OpenApiError(f"the name {short(name)} stands twice in an object")
        top.key = name

    def _put(self, value: Any, anchor: str | None, adds: int, size: int | None = None) -> None:
        self._values += adds
        if self._values > MAX_VALUES:
            raise OpenApiError(f"it has over {MAX_VALUES} values once its aliases are replaced")
        if anchor is not None:
            self._anchors[anchor] = value, size or adds
        if not self._open:
            self.root = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key == "<<" and isinstance(value, dict):
            for name, inner in value.items():
                top.value.setdefault(name, inner)
            top.key = None
        else:
            top.value[top.key] = value
            top.key = None

    @staticmethod
    def _check_tag(tag: str | None) -> None:
        if tag is not None and tag not in ("!", f"{_YAML}map", f"{_YAML}seq"):
            raise OpenApiError(f"its tag {short(tag)} is none of OpenAPI's")


def _scalar(event: Any) -> Any:
    text, tag = event.value, event.tag
    if tag is not None and tag not in (
        "!",
        *(f"{_YAML}{name}" for name in ("str", "int", "float", "bool", "null")),
    ):
        raise OpenApiError(f"its tag {short(tag)} is none of OpenAPI's")
    if not event.implicit[0] and (tag is None or tag in ("!", f"{_YAML}str")):
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return float(text) if _REAL.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text) else text
