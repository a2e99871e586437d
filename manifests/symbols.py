"""Codes for names: which instruments a text means, and how each kind of tool wants their codes.

The table begins with `symbols.tsv`, a small dated list of well-known instruments. Listings that a
gateway has read are added to it. A name is looked up as it is, by its parts, in pinyin, and by
similar spelling (rapidfuzz). A name that several instruments have is ambiguous, and never guessed.
"""

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import Final
from unicodedata import normalize

from anyio import to_thread

from manifests.common.files import private_folder, replaced_file
from manifests.common.regular_file import read_text
from manifests.formats import EXCHANGES

log = logging.getLogger("finport")

SEED: Final = Path(__file__).parent / "symbols.tsv"
SEEDED: Final = "2026-11-26"
"""The day on which the packaged table was last checked."""

OLD_S: Final = 7 * 86_400.0
"""The age of a kept table at which it is made anew."""

MOST_BYTES: Final = 2_000_000
"""The greatest kept table that is read: some 40,000 instruments."""

LONGEST: Final = 64
"""The most characters of a name that is looked up."""

LEAST: Final = 80
"""The least similarity, of 100, of a spelling that may be meant."""

_MAINLAND: Final = ("sh", "sz", "bj")
_NUMBERS: Final[Mapping[str, str]] = {"nasdaq": "105", "nyse": "106", "amex": "107"}
_ALSO_WORDS: Final = """
target shell curve gap block meta visa square snap unity match zoom ford near render sand flow graph
optimism stellar cosmos maker compound ball carnival progressive public international republic
"""
_ORDINARY = frozenset(_ALSO_WORDS.split())
"""Names that are words of other meaning, too."""

_WORD = re.compile(r"[a-z0-9]+")
_CHINESE = "\u4e00"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One instrument: the exchange that lists it, its code there, and what it is called.

    `kind` is share, etf, fund, index, coin, currency, future or convertible; `names` begin with the
    one to show.
    """

    exchange: str
    code: str
    kind: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def market(self) -> str:
        """The market in one word: cn, hk, us, or the exchange's own."""
        if self.exchange in _MAINLAND or self.exchange == "of":
            return "cn"
        return "us" if self.exchange in _NUMBERS else self.exchange

    def forms(self) -> dict[str, str]:
        """The code in each form that tools want, by the name of the format."""
        code, exchange = self.code, self.exchange
        if exchange in _MAINLAND:
            found = {"six-digit-code": code, "exchange-prefixed": f"{exchange}{code}"}
            if self.kind in ("etf", "fund"):
                return {"fund-code": code, **found}
            if self.kind != "share":
                return found
            return {
                "a-share-code": code,
                "a-share-prefixed": f"{exchange}{code}",
                "a-share-upper": f"{exchange.upper()}{code}",
                "a-share-suffixed": f"{code}.{exchange.upper()}",
                **found,
            }
        if exchange == "of":
            return {"fund-code": code}
        if exchange == "hk" and self.kind != "index":
            return {"hk-code": code, "ticker": f"{code[-4:]}.HK"}
        if exchange in _NUMBERS:
            return {"ticker": code, "us-code": f"{_NUMBERS[exchange]}.{code}"}
        return {"code": code}

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "code": self.code,
            "exchange": self.exchange,
            "market": self.market,
            "kind": self.kind,
            "names": [*self.names[1:]],
            "forms": self.forms(),
        }


@dataclass(frozen=True, slots=True)
class Match:
    """An instrument that may be meant; `score` is 100 for a name or code as it is."""

    symbol: Symbol
    score: float
    by: str


class Symbols:
    """An immutable table of instruments."""

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        self._all: dict[tuple[str, str], Symbol] = {}
        for one in symbols:
            # A ticker is one instrument in the United States, whichever exchange a listing names.
            key = ("us" if one.market == "us" else one.exchange, one.code)
            known = self._all.get(key, one)
            names = tuple(dict.fromkeys(name for name in (*known.names, *one.names) if name))
            self._all[key] = Symbol(known.exchange, known.code, known.kind, names)
        self._by_name: defaultdict[str, list[Symbol]] = defaultdict(list)
        self._by_code: defaultdict[str, list[Symbol]] = defaultdict(list)
        for one in self._all.values():
            self._by_code[one.code.upper()].append(one)
            for name in {folded(name) for name in one.names} - {""}:
                self._by_name[name].append(one)
        self._longest: dict[str, int] = {}
        """By the first character of a name, the length of the longest that begins so."""
        for name in self._by_name:
            self._longest[name[0]] = max(len(name), self._longest.get(name[0], 0))

    @classmethod
    def load(cls) -> "Symbols":
        """The packaged table, which a process reads once."""
        return _shipped()

    def with_more(self, symbols: Iterable[Symbol]) -> "Symbols":
        """These instruments and others; names of one instrument add up."""
        return Symbols([*self, *symbols])

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._all.values())

    def by_code(self, code: str) -> list[Symbol]:
        """The instruments that have this code, on any exchange."""
        return self._by_code.get(code.upper(), [])

    def exact(self, text: str) -> list[Symbol]:
        """The instruments that have this name or code, in any common spelling."""
        text = text[:LONGEST]
        named = self._by_name.get(folded(text), [])
        return [*dict.fromkeys([*named, *self._coded(text)])]

    def resolve(self, text: str, limit: int = 10) -> list[Match]:
        """The instruments that may be meant, the most similar first."""
        text = text[:LONGEST]
        found = {one: Match(one, 100.0, "code") for one in self._coded(text)}
        key = folded(text)
        for one in self._by_name.get(key, ()):
            found.setdefault(one, Match(one, 100.0, "name"))
        for one in self._spoken.get(_sound(key), ()):
            found.setdefault(one, Match(one, 95.0, "pinyin"))
        if len(key) > 1:
            for name, score in _similar(key, [*self._by_name]):
                by = "part of the name" if key in name else "similar spelling"
                for one in self._by_name[name]:
                    found.setdefault(one, Match(one, score, by))
        order = sorted(found.values(), key=lambda match: (-match.score, match.symbol.code))
        return order[:limit]

    def mentioned(
        self, text: str, words: Container[str] = ()
    ) -> Iterator[tuple[int, int, list[Symbol]]]:
        """Where a text names instruments, and which: the longest name from each place on. A name
        that is one of the ordinary `words` counts only in its own capitals.
        """
        at, low = 0, text.lower()
        while at < len(low):
            found = self._name_at(low, at) if low[at] in self._longest else 0
            if found:
                name = low[at : at + found]
                those = self._by_name[folded(name)]
                plain = name in words or name in _ORDINARY
                if not plain or any(text[at : at + found] in one.names for one in those):
                    yield at, at + found, those
            at += found or _step(low, at)

    def latin(self) -> Iterator[str]:
        """The words of names in Latin script, in lower case."""
        for one in self:
            for name in one.names:
                yield from _WORD.findall(name.lower())

    def chinese(self) -> Iterator[str]:
        """The names in Chinese."""
        return (n for one in self for n in one.names if n and all(c >= _CHINESE for c in n))

    def _name_at(self, text: str, at: int) -> int:
        """The length of the longest name that begins at a place of a text in lower case."""
        is_chinese = text[at] >= _CHINESE
        for end in range(min(len(text), at + self._longest[text[at]] + 4), at + 1, -1):
            if not is_chinese and (end < len(text) and text[end].isascii() and text[end].isalnum()):
                continue
            if text[end - 1].isalnum() and folded(text[at:end]) in self._by_name:
                return end - at
        return 0

    def _coded(self, text: str) -> list[Symbol]:
        exchange, code = _read_code(text)
        known = self.by_code(code)
        return [one for one in known if not exchange or one.exchange == exchange]

    @cached_property
    def _spoken(self) -> Mapping[str, list[Symbol]]:
        """The instruments by the pinyin of their names, whole and by initials."""
        found: defaultdict[str, list[Symbol]] = defaultdict(list)
        for one in self:
            for name in one.names:
                if name and name[0] >= _CHINESE:
                    for spoken in {_sound(folded(name)), _sound(folded(name), initials=True)}:
                        if one not in found[spoken]:
                            found[spoken].append(one)
        return found


Listings = Callable[[], Awaitable[Sequence[Symbol]]]


class SymbolTable:
    """The instruments that one gateway knows: the packaged table, and what its listings said, which
    is kept in a file. It is read on first use; a file that is a week old is then made anew in the
    background.
    """

    def __init__(self, file: Path | None = None, listings: Listings | None = None) -> None:
        self.as_of = SEEDED
        self._file = file
        self._listings = listings
        self._symbols: Symbols | None = None
        self._reading = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None

    async def read(self) -> Symbols:
        """The instruments that are known now."""
        async with self._reading:
            if self._symbols is not None:
                return self._symbols
            symbols, age_s = await to_thread.run_sync(self._read)
            self._symbols = symbols
            if self._listings is not None and age_s > OLD_S:
                self._renewal = asyncio.create_task(self._renew(self._listings))
            return symbols

    async def renewed(self) -> Symbols:
        """The instruments once a renewal that is under way has ended."""
        symbols = await self.read()
        if self._renewal is not None:
            await asyncio.wait({self._renewal})
        return self._symbols or symbols

    async def aclose(self) -> None:
        """End a renewal that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait({self._renewal})

    def _read(self) -> tuple[Symbols, float]:
        """The table, and the age of its file in seconds; that of no file is infinite."""
        symbols = Symbols.load()
        if self._file is None:
            return symbols, inf
        try:
            if (size := self._file.stat().st_size) > MOST_BYTES:
                raise ValueError(f"it has {size:,} bytes, over {MOST_BYTES:,}")
            more = [*rows(read_text(self._file).decode())]
            changed = self._file.stat().st_mtime
        except FileNotFoundError:
            return symbols, inf
        except (OSError, ValueError) as error:
            log.warning("%s: it is not read: %s", self._file, error)
            return symbols, inf
        self.as_of = f"{datetime.fromtimestamp(changed, UTC):%Y-%m-%d}"
        return symbols.with_more(more), max(time.time() - changed, 0.0)

    async def _renew(self, listings: Listings) -> None:
        try:
            found = await listings()
            if found:
                await to_thread.run_sync(self._write, found)
                self._symbols, _ = await to_thread.run_sync(self._read)
        except (OSError, TimeoutError, ValueError) as error:
            log.warning("the table of instruments stays as it was: %s", error)

    def _write(self, symbols: Sequence[Symbol]) -> None:
        if self._file is None:
            return
        private_folder(self._file.parent)
        with replaced_file(self._file) as out:
            for one in symbols:
                names = [re.sub(r"[\t\n\r|]", " ", name) for name in one.names]
                cells = (one.exchange, one.code, one.kind, names[0], "", "|".join(names[1:]))
                out.write(("\t".join(cells) + "\n").encode())


@cache
def _shipped() -> Symbols:
    return Symbols(rows(SEED.read_text(encoding="utf-8")))


def rows(text: str) -> Iterator[Symbol]:
    """The instruments of a table: exchange, code, kind, Chinese, English and other names, with tabs
    between, and bars between other names. Raises `ValueError` for a line of another form.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        try:
            exchange, code, kind, chinese, english, others = line.split("\t")
        except ValueError:
            raise ValueError(f"line {number}: six columns are expected") from None
        yield Symbol(exchange, code, kind, (chinese or english, english, *others.split("|")))


def folded(text: str) -> str:
    """A name without case, width, blanks and marks."""
    return "".join(filter(str.isalnum, normalize("NFKC", text).casefold()))


def _sound(name: str, *, initials: bool = False) -> str:
    """A name in pinyin, whole or by its initials; Latin letters stay."""
    from pypinyin import Style, lazy_pinyin

    style = Style.FIRST_LETTER if initials else Style.NORMAL
    return "".join(lazy_pinyin(name, style=style))


def _similar(key: str, names: Sequence[str]) -> list[tuple[str, float]]:
    """Names that have `key` in them or are spelt alike, the most similar first."""
    from rapidfuzz import fuzz, process

    found = {name: max(100.0 * len(key) / len(name), 80.0) for name in names if key in name}
    for name, score, _ in process.extract(
        key, names, scorer=fuzz.ratio, score_cutoff=LEAST, limit=20
    ):
        found.setdefault(name, score - 1)
    return sorted(found.items(), key=lambda one: -one[1])[:20]


def _read_code(text: str) -> tuple[str, str]:
    """The exchange, if it is said, and the code in `sh600519`, `600519.SH`, `0700.HK`, `105.AAPL`
    or `AAPL`.
    """
    text = normalize("NFKC", text).strip()
    if match := re.fullmatch(r"(?i)(sh|sz|bj|hk|of)[.:]?(\d{1,6})", text):
        return match[1].lower(), _padded(match[1].lower(), match[2])
    if match := re.fullmatch(r"(?i)(\d{1,6})\.(sh|ss|sz|bj|hk|of|xshg|xshe)", text):
        exchange = EXCHANGES.get(match[2].lower(), match[2].lower())
        return exchange, _padded(exchange, match[1])
    if match := re.fullmatch(r"(?i)(?:10[567]\.|(?:nasdaq|nyse|amex):)([a-z.-]+)", text):
        text = match[1]
    text = re.sub(r"(?i)\.(?:o|n)$", "", text)  # as Refinitiv writes Nasdaq and New York
    return "", re.sub(r"(?i)(?<=[a-z])-(?=[ab]$)", ".", text)


def _padded(exchange: str, code: str) -> str:
    return code.zfill(5) if exchange == "hk" else code


def _step(text: str, at: int) -> int:
    """To the next place where a name can begin: after a word in Latin script, or one character."""
    match = _WORD.match(text, at)
    return len(match[0]) if match else 1
