"""Facets: what is asked for, of which kind of instrument, in which country, how often.

The same facets describe a tool and a question, so they can be compared. Those of the packaged tools
are in `facets.tsv`, read twice by people. Those of a question, and of a tool without a line there,
are read from its words by the glossary. A name or a code of an instrument says which kind of
instrument and which market is meant, and nothing else.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from manifests.symbols import Symbol, Symbols
from manifests.words import Glossary

KINDS: Final = ("asks", "instrument", "country", "frequency")

_FILE = Path(__file__).parent / "facets.tsv"
_SUFFIXED = re.compile(r"(?<![A-Za-z0-9])(\d{4,6})\.(SH|SS|SZ|BJ|HK)(?![A-Za-z0-9])", re.IGNORECASE)
_PREFIXED = re.compile(r"(?<![A-Za-z0-9])(sh|sz|bj|hk)(\d{5,6})(?!\d)", re.IGNORECASE)
_DIGITS = re.compile(r"(?<![\w.,/-])(\d{5,6})(?![\w%,/-]|\.\d)", re.ASCII)
_TICKER = re.compile(r"(?<![A-Za-z0-9])[$]?([A-Z]{2,5}(?:[.-][AB])?)(?![A-Za-z0-9])")
_OF_FUTURES = re.compile(
    r"(?<![A-Za-z0-9])[A-Z]{1,2}\d{3,4}(?:-?[CP]-?\d+)?(?![A-Za-z0-9])", re.IGNORECASE
)
_IS_OPTION = re.compile(r"\d-?[CP]-?\d|^(?:IO|HO|MO)", re.IGNORECASE)
_IN_CAPITALS: Final = """
ALL NOW ARE CAN SO ON IT BE GO ANY FOR KEY LOW OPEN REAL PLAY FAST CASH TRUE ETF IPO NAV EPS PE PB
ROE GDP CPI PPI PMI USA US UK EU HK CNY LPR ESG DOW SEC CEO CFO API AI EV PS TTM YOY QOQ AH PEG DCF
FX OTC LOF QFII REIT BDI VIX MA RSI KDJ
"""
_ORDINARY = frozenset(_IN_CAPITALS.split())
"""Words in capitals that are also tickers, or might be."""

_KIND_OF: Final[Mapping[str, str]] = {"coin": "crypto", "currency": "forex"}
"""The kinds of instruments that the facet names otherwise."""

_COUNTRY_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sh", "sz", "bj", "of"), "cn"),
    **dict.fromkeys(("shfe", "dce", "czce", "cffex", "ine", "gfex"), "cn"),
    "hk": "hk",
    **dict.fromkeys(("nasdaq", "nyse", "amex"), "us"),
}


@dataclass(frozen=True, slots=True)
class Facets:
    """The values of each facet, the most important first; empty where nothing is said."""

    asks: tuple[str, ...] = ()
    instrument: tuple[str, ...] = ()
    country: tuple[str, ...] = ()
    frequency: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        """The facets that say something."""
        return {kind: [*values] for kind in KINDS if (values := getattr(self, kind))}


@dataclass(frozen=True, slots=True)
class Intent:
    """What a question asks for: its facets, and the names and codes that it mentions. `rest` is the
    question without them.
    """

    question: str
    facets: Facets
    names: tuple[str, ...]
    rest: str


@cache
def shipped_facets() -> Mapping[str, Facets]:
    """The facets of the packaged tools, by name."""
    found = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        name, *values = line.split("\t")
        found[name] = Facets(*(tuple(part.split("|")) if part else () for part in values))
    return found


def facets_of(text: str, glossary: Glossary) -> Facets:
    """The facets that the words of a text name."""
    return _facets(glossary.facets(text))


def read(question: str, glossary: Glossary, symbols: Symbols, words: Container[str] = ()) -> Intent:
    """What a question asks for. Names and codes carry no weight of their own in its `rest`. Of
    `words` it is known that they are no names, unless they are written as such.
    """
    names, implied = list[str](), list[tuple[str, str]]()
    rest = question
    for start, end, found, is_name in reversed([*_mentions(question, symbols, words)]):
        implied += found
        if is_name:
            if question[start:end] not in names:
                names.insert(0, question[start:end])
            rest = f"{rest[:start]} {rest[end:]}"
    said = [*glossary.facets(rest)]
    has = {kind for kind, _ in said}
    # What a name betrays counts where the words say nothing else: "Tesla options" asks for options.
    said += [(kind, value) for kind, value in implied if kind not in has]
    return Intent(question, _facets(said), tuple(names), rest)


def _facets(said: Iterable[tuple[str, str]]) -> Facets:
    values: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
    for kind, value in said:
        values[kind][value] = None
    return Facets(*(tuple(values[kind]) for kind in KINDS))


Mention = tuple[int, int, list[tuple[str, str]], bool]


def _mentions(text: str, symbols: Symbols, words: Container[str]) -> Iterator[Mention]:
    """Where a text names instruments, what each betrays, and whether it is nothing but a name; in
    order, without overlaps.
    """
    found = [
        *(
            (start, end, _betrayed(those), _is_name(those))
            for start, end, those in symbols.mentioned(text, words)
        ),
        *((start, end, betrayed, True) for start, end, betrayed in _codes(text, symbols)),
    ]
    last = 0
    for start, end, betrayed, is_name in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= last:
            yield start, end, betrayed, is_name
            last = end


def _is_name(those: Iterable[Symbol]) -> bool:
    """Whether it is a name alone. Goods, currencies and indices are words of tools too."""
    return not any(one.kind in ("future", "currency", "index") for one in those)


def _codes(text: str, symbols: Symbols) -> Iterator[tuple[int, int, list[tuple[str, str]]]]:
    for match in _SUFFIXED.finditer(text):
        yield *match.span(), _of_exchange(match[2].lower().replace("ss", "sh"), match[1], symbols)
    for match in _PREFIXED.finditer(text):
        yield *match.span(), _of_exchange(match[1].lower(), match[2], symbols)
    for match in _DIGITS.finditer(text):
        where = "hk" if len(match[1]) == 5 else "cn"
        yield *match.span(), _of_exchange(where, match[1], symbols)
    for match in _OF_FUTURES.finditer(text):
        kind = "option" if _IS_OPTION.search(match[0]) else "future"
        yield *match.span(), [("instrument", kind), ("country", "cn")]
    for match in _TICKER.finditer(text):
        those = [one for one in symbols.by_code(match[1]) if one.kind != "currency"]
        if those and match[1] not in _ORDINARY:
            yield *match.span(), _betrayed(those)


def _of_exchange(where: str, code: str, symbols: Symbols) -> list[tuple[str, str]]:
    known = [one for one in symbols.by_code(code) if where == "cn" or one.exchange == where]
    if known:
        return _betrayed(known)
    kind = "share"
    if where != "hk":
        kind = "etf" if code[:2] in {"51", "15", "56", "58"} else "share"
        kind = "convertible" if code[:2] in {"11", "12"} else kind
    return [("instrument", kind), ("country", _COUNTRY_OF.get(where, "cn"))]


def _betrayed(those: Iterable[Symbol]) -> list[tuple[str, str]]:
    """What a name or a code says by itself: the kind and the market of its instruments."""
    found: dict[tuple[str, str], None] = {}
    for one in those:
        found["instrument", _KIND_OF.get(one.kind, one.kind)] = None
        if country := _COUNTRY_OF.get(one.exchange):
            found["country", country] = None
    return [*found]
