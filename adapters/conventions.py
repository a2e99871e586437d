"""Recognises errors in upstream bodies of any status, by a table and general rules.

A document that holds data is never an error, however it is marked. Data is any value that is not
empty, not a flag, and not under a name that errors use.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any


@dataclass(frozen=True, slots=True)
class UpstreamErrorBody:
    """An error in the upstream's own words, and the HTTP status that it amounts to, if any."""

    text: str
    status: int | None = None


Rule = Callable[[Mapping[str, Any]], UpstreamErrorBody | None]

_FAILED = {"error", "fail", "failed", "failure"}
_FINE = {"", "0", "false", "n/a", "no", "none", "null", "ok", "success", "successful"}
_ERRORS = {"error", "errors", "errormessage", "errormessages", "errmsg"}
_STATES = {"status", "result", "s"}
_FLAGS = {"success", "ok"}
_CODES = {"code", "status", "statuscode", "errorcode", "httpstatus"}
_WORDS = _ERRORS | {"message", "messages", "msg", "description", "detail", "details", "reason",
                    "title", "type", "info", "code", "errortype"}  # fmt: skip
_NESTED = _ERRORS | {"message", "messages", "detail", "details"}
_ABOUT = _WORDS | _STATES | _FLAGS | _CODES | {"timestamp", "time", "path", "requestid"}
_DEEP, _WIDE = 4, 20

_SLOW_DOWN = re.compile(
    r"too many (requests|visits)|rate.?limit|limit reach|throttl|quota (is |was )?exceeded"
    r"|exceeded (your|the) .{0,30}(quota|requests|calls)|(api|call|request|daily|monthly) limit",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"internal (server )?error|(service|temporarily) unavailable|bad gateway|gateway time.?out"
    r"|(try|retry) again later|timed out|api is unreachable",
    re.IGNORECASE,
)


def _alpha_vantage(said: Mapping[str, Any]) -> UpstreamErrorBody | None:
    """`Note` and `Information` ask to slow down, except where they advertise."""
    text = ": ".join(_words(list(said.values())))
    if not text or set(said) - {"Error Message", "Note", "Information"}:
        return None
    is_calming = "Error Message" not in said and "premium endpoint" not in text.lower()
    return _refusal(text, 429 if is_calming else None)


def _error_message(said: Mapping[str, Any]) -> UpstreamErrorBody | None:
    text = said.get("Error Message")
    return _refusal(text) if isinstance(text, str) and len(said) == 1 else None


def _bybit(said: Mapping[str, Any]) -> UpstreamErrorBody | None:
    """`retCode` is 0 for success (bybit-exchange.github.io/docs/v5/error)."""
    code, others = said.get("retCode"), {"retMsg", "retExtInfo", "time"}
    if not isinstance(code, int) or not code or said.get("result"):
        return None
    if set(said) - {"retCode", "result"} - others:
        return None
    status = {10000: 504, 10006: 429, 10016: 500, 10018: 429}.get(code)
    return UpstreamErrorBody(f"{code}: {said.get('retMsg', '')}", status)


def _exchange_rate(said: Mapping[str, Any]) -> UpstreamErrorBody | None:
    """`result` says error and `error-type` which (exchangerate-api.com/docs)."""
    others = {"documentation", "terms-of-use"}
    if said.get("result") != "error" or set(said) - {"result", "error-type"} - others:
        return None
    text = str(said.get("error-type", "no reason given"))
    return UpstreamErrorBody(text, 429 if text == "quota-reached" else None)


def _udf(said: Mapping[str, Any]) -> UpstreamErrorBody | None:
    """`s` says error and `errmsg` which (TradingView's UDF protocol)."""
    if said.get("s") != "error" or set(said) - {"s", "errmsg", "nextTime"}:
        return None
    return _refusal(str(said.get("errmsg", "no reason given")))


RULES: Mapping[str, Rule] = {
    "alpha-vantage.p.rapidapi.com": _alpha_vantage,
    "alpha-vantage12.p.rapidapi.com": _alpha_vantage,
    "bybit4.p.rapidapi.com": _bybit,
    "exchangerate-api.p.rapidapi.com": _exchange_rate,
    "financial-modeling-prep.p.rapidapi.com": _error_message,
    "trading-view.p.rapidapi.com": _udf,
}
"""Conventions of single hosts; those that any host may use are in `error_body_in`."""

PROXY = ".p.rapidapi.com"
"""The suffix of hosts for which RapidAPI's proxy answers, with a `message` and nothing else."""


def error_body_in(host: str, value: object) -> UpstreamErrorBody | None:
    """Return the error that the JSON document `value` expresses, or None for an answer."""
    if not isinstance(value, dict) or not value:
        return None
    rule = RULES.get(host)
    if rule is not None and (found := rule(value)) is not None:
        return found
    if len(value) == 1:  # Yahoo's: {"chart": {"result": null, "error": {...}}}
        (inner,) = value.values()
        if isinstance(inner, dict) and {"result", "error"} <= inner.keys():
            value = inner
    if any(_is_data(name, field) for name, field in value.items()):
        return None
    text = words_in(value)
    if host.endswith(PROXY) and {*map(_plain, value)} in ({"message"}, {"messages", "info"}):
        return _refusal(text) if text.lower() not in _FINE else None
    code = _code(value)
    if _is_marked(value) or (code is not None and text):
        return _refusal(text or "no reason given", code)
    return None


def words_in(value: object) -> str:
    """Return the texts of a JSON document that are in places where errors have text."""
    return ": ".join(dict.fromkeys(_words(value)))


def _refusal(text: str, code: int | None = None) -> UpstreamErrorBody:
    if code is None and _SLOW_DOWN.search(text[:1000]):
        code = 429
    elif code is None and _BROKEN.search(text[:1000]):
        code = 503
    return UpstreamErrorBody(text, code)


def _is_marked(said: Mapping[str, Any]) -> bool:
    for name, field in said.items():
        plain = _plain(name)
        if plain in _STATES and isinstance(field, str) and field.lower() in _FAILED:
            return True
        if plain in _FLAGS and field is False:
            return True
        if plain in _ERRORS and (field is True or _code(field) or any(_words(field, 1))):
            return True
    return False


def _is_data(name: str, field: object) -> bool:
    if isinstance(field, bool) or field in (None, "", [], {}):
        return False
    plain = _plain(name)
    return plain not in _ABOUT or (isinstance(field, dict | list) and plain not in _NESTED)


def _code(said: object, deep: int = 0) -> int | None:
    """Return the HTTP status of an error that is in `said` or in the error nested in it."""
    if isinstance(said, list):
        said = said[0] if said else None
    if not isinstance(said, dict) or deep > 1:
        return None
    for name, field in said.items():
        is_code = isinstance(field, int | str) and re.fullmatch("[45][0-9][0-9]", str(field))
        if is_code and _plain(name) in _CODES:
            return int(field)
    inner = (_code(field, deep + 1) for name, field in said.items() if _plain(name) in _ERRORS)
    return next(filter(None, inner), None)


def _words(said: object, deep: int = 0) -> Iterator[str]:
    """Yield the texts of an error in their order."""
    if isinstance(said, str):
        if said.strip().lower() not in _FINE:
            yield said.strip()
    elif deep < _DEEP and isinstance(said, list):
        for item in said[:3]:
            yield from _words(item, deep + 1)
    elif deep < _DEEP and isinstance(said, dict):
        names = list(islice(said, _WIDE))
        named = [name for name in names if _plain(name) in _WORDS]
        for name in named or (names if deep else ()):  # in a nested error any name may hold text
            yield from _words(said[name], deep + 1)


def _plain(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())
