"""Makes an answer of the result of `tools/call`.

`structuredContent` is the answer, or else the content: one text, which is read as JSON if it is
that, or the list of its parts. Pictures, sound and resources stay as the server sent them, with
their type and in base64.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from adapters.fault import UpstreamFault, fit_for_message
from adapters.mask import Mask
from adapters.normalise import Answer, from_value, masked
from manifests import Manifest

_WORDS = 500
"""The most characters of what a server says of an error."""


def answer_of(result: Mapping[str, Any], manifest: Manifest, mask: Mask) -> Answer:
    """Raises `UpstreamFault`: `rejected` with the server's words, `invalid`, `too_large`."""
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    if result.get("isError"):
        said = " ".join(part["text"] for part in parts if _is_text(part))
        text = fit_for_message(mask.text(said), most=_WORDS) or "without words"
        raise UpstreamFault("rejected", f"{manifest.name} refuses this: {text}")
    if result.get("resultType", "complete") != "complete":
        raise UpstreamFault("rejected", "the server asks for input, which a gateway does not give")
    answer = from_value(_value(result, parts, manifest))
    return masked(answer, mask) if mask else answer


def _value(result: Mapping[str, Any], parts: list[Any], manifest: Manifest) -> Any:
    structured = result.get("structuredContent")
    others = [part for part in parts if not _is_text(part)]
    if structured is not None:
        if others:
            return {"structuredContent": structured, "content": others}
        return _table(structured) if manifest.columns else structured
    if len(parts) != 1 or others:
        return parts
    text = parts[0]["text"]
    if text.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return text


def _table(structured: Any) -> Any:
    """The one list of records that an object holds, as its schema says, or the object."""
    if isinstance(structured, dict) and len(structured) == 1:
        rows = next(iter(structured.values()))
        if isinstance(rows, list):
            return rows
    return structured


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)
