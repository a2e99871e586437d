"""Binds calls that name an instrument where a tool wants its code.

A name or code that one instrument has, in the market of the tool, stands for its code there. What
several have is ambiguous: the candidates are told, and none is guessed. An instrument of another
market is told with the tool for that market.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall, printable
from manifests import Catalog, Manifest, Parameter
from manifests.symbols import Symbol, Symbols

FORMS: Final = frozenset(
    ["a-share-code", "a-share-prefixed", "a-share-upper", "a-share-suffixed", "exchange-prefixed"]
) | {"hk-code", "us-code", "fund-code", "six-digit-code"}
"""The formats whose values are codes of instruments."""

_OF_A_BOARD = re.compile(r"_(?:kcb|b|cdr|ah)_|_(?:bj|delisted)")
"""Tools for one board alone, or for shares that are gone."""

SHOWN: Final = 5
"""The most candidates that an error names."""


def names_instrument(error: CallError, manifest: Manifest | None) -> bool:
    """Whether a call was refused for a text where a code of an instrument is expected."""
    return manifest is not None and any(_refused(error, manifest))


def _refused(error: CallError, manifest: Manifest) -> list[Parameter]:
    problems = (error.details or {}).get("problems", ())
    wrong = {problem["argument"] for problem in problems}
    return [p for p in manifest.parameters if p.name in wrong and p.format in FORMS]


def bind_names(
    binder: Binder,
    catalog: Catalog,
    symbols: Symbols,
    tool: str,
    given: Mapping[str, Any],
    refused: InvalidCall,
    allows: Callable[[Manifest], bool],
) -> BoundCall:
    """The call with codes in place of names; `resolved` says which. Raises `InvalidCall`, which
    says what is ambiguous or listed elsewhere, and names tools that the caller is allowed.
    """
    manifest = catalog.get(tool)
    if manifest is None:  # it went while the table of names was read
        raise refused
    meant, resolved, told = dict(given), dict[str, str](), dict[str, str]()
    others = [tool for tool in catalog if allows(tool)]
    aliases = binder.aliases(tool, given)
    for parameter in _refused(refused.error, manifest):
        name = next((n for n in given if aliases.get(n, n) == parameter.name), parameter.name)
        value = given.get(name)
        if not isinstance(value, str) or not any(map(str.isalpha, value)):
            continue
        found = symbols.exact(value)
        form = parameter.format or ""
        fitting = [one for one in found if form in one.forms() and _is_of(one, manifest)]
        if len(fitting) == 1:
            meant[name] = fitting[0].forms()[form]
            resolved[parameter.name] = f"{printable(value)} is {fitting[0].name}, {meant[name]}"
        else:
            told[parameter.name] = _told(value, found, fitting, manifest, others)
    if resolved and not told:
        bound = binder.bind(tool, meant)
        return BoundCall(bound.plan, bound.arguments, bound.key, bound.aliases, resolved)
    raise _with_hints(refused, told)


def _told(
    value: str,
    found: Sequence[Symbol],
    fitting: Sequence[Symbol],
    manifest: Manifest,
    others: Sequence[Manifest],
) -> str:
    shown = printable(value)
    if fitting:
        names = "; ".join(f"{one.name} {one.exchange}{one.code}" for one in fitting[:SHOWN])
        return f"{shown!r} is the name of {len(fitting)} instruments: {names}"
    if found:
        one = found[0]
        tools = tools_for(manifest, one, others)
        asks = f"; for it ask {' or '.join(tools)}" if tools else ""
        return f"{shown!r} is {one.name}, {one.kind} {one.code} of {one.exchange}{asks}"
    return f"no instrument is named {shown!r} (resolve_symbol finds codes by similar names)"


def _is_of(symbol: Symbol, manifest: Manifest) -> bool:
    """Whether a tool is about instruments of that kind, as far as is known."""
    from manifests.facets import shipped_facets

    facets = shipped_facets().get(manifest.name)
    return facets is None or bool(_kinds(symbol) & {*facets.instrument})


def _kinds(symbol: Symbol) -> frozenset[str]:
    """The instruments, in the words of facets, that a symbol may stand for."""
    return _KINDS.get(symbol.kind) or frozenset([symbol.kind])


_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "share": frozenset(["share", "company"]),
    "etf": frozenset(["etf", "fund"]),
    "fund": frozenset(["fund", "etf"]),
    "coin": frozenset(["crypto"]),
    "currency": frozenset(["forex"]),
    "convertible": frozenset(["convertible", "bond"]),
}


def tools_for(manifest: Manifest, symbol: Symbol, others: Sequence[Manifest]) -> list[str]:
    """The tools most like `manifest` that are about the market and kind of an instrument."""
    from rapidfuzz import fuzz

    from manifests.facets import Facets, shipped_facets

    facets, kinds = shipped_facets(), _kinds(symbol)
    own = facets.get(manifest.name, Facets())
    fitting = [
        tool.name
        for tool in others
        if tool.name != manifest.name
        and (other := facets.get(tool.name)) is not None
        and {*own.asks[:1]} & {*other.asks[:1]}
        and kinds & {*other.instrument}
        and (symbol.market in other.country or ("crypto" in kinds and "any" in other.country))
        and not tool.unavailable
        and not _OF_A_BOARD.search(tool.name)
    ]
    return sorted(fitting, key=lambda name: -fuzz.ratio(name, manifest.name))[:2]


def _with_hints(refused: InvalidCall, told: Mapping[str, str]) -> InvalidCall:
    """The same refusal, which also says what is known of the names."""
    if not told:
        return refused
    error = refused.error
    problems = [
        {**problem, "problem": told.get(problem["argument"], problem["problem"])}
        for problem in (error.details or {})["problems"]
    ]
    text = "; ".join(f"{p['argument']}: {p['problem']}, {p['expected']}" for p in problems)
    details = {**(error.details or {}), "problems": problems}
    return InvalidCall(
        CallError(ErrorCode.INVALID_ARGUMENTS, text, details=details), refused.arguments
    )
