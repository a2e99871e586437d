"""The days that a question names: dates, months, quarters and years, with a year or without one.

Of `05/06/2026` both readings are taken, unless another date of the question tells which comes
first, the day or the month.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice

from gateway.compress.negation import is_excluded
from gateway.compress.numerals import COUNT, HAN, ORDINAL, number_of
from gateway.compress.spans import Neighbours, Opening, Recurring, Span, end_of

MOST = 64
"""How many days without a year are read at most."""

BLANK = "\0"
"""Stands for characters that were read. Patterns skip spaces, and many of these in a row cost."""

_MONTHS = (
    *("jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?"),
    *("aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?"),
)
_MONTH = rf"(?P<%s>{'|'.join(_MONTHS)})(?![a-z])\.?"
_YEAR = r"(?P<%s>(?:19|20)\d\d)"
_HAN_YEAR = r"(?P<%s>(?:19|20)\d\d|[一二][〇○零一二三四五六七八九]{3})"
_NUMBER = rf"(?P<%s>\d\d?|{HAN})"
_DAY = r"(?P<%s>\d\d?)(?:st|nd|rd|th)?"
_QUARTER = rf"(?P<%s>{ORDINAL}) quarter"

_DATES = re.compile(
    "|".join(
        [
            rf"{_YEAR % 'y1'}\s?[-/.年]\s?(?P<m1>\d\d?)\s?[-/.月]\s?(?P<d1>\d\d?)\s?[日号]?(?!\d)",
            rf"(?<!\d){_YEAR % 'y2'}(?P<m2>0[1-9]|1[0-2])(?P<d2>0[1-9]|[12]\d|3[01])(?!\d)",
            rf"{_DAY % 'd3'}(?: of)? {_MONTH % 'm3'},? {_YEAR % 'y3'}",
            rf"\b{_MONTH % 'm4'} {_DAY % 'd4'},? {_YEAR % 'y4'}",
            rf"\b{_MONTH % 'm5'},? (?:of )?{_YEAR % 'y5'}",
            rf"{_HAN_YEAR % 'y6'}\s?年\s?{_NUMBER % 'm6'}\s?月\s?{_NUMBER % 'd6'}\s?[日号]",
            rf"{_HAN_YEAR % 'y7'}\s?年\s?{_NUMBER % 'm7'}\s?月份?",
            rf"(?<![\d.]){_YEAR % 'y8'}-(?P<m8>0[1-9]|1[0-2])(?![-\d])",
            rf"(?<![\d/.-])(?P<a9>\d\d?)(?P<sep>[-/.])(?P<b9>\d\d?)(?P=sep){_YEAR % 'y9'}(?!\d)",
            rf"\bq(?P<q10>[1-4])[ /-]?(?:of )?{_YEAR % 'y10'}",
            rf"{_YEAR % 'y11'}[ -]?q(?P<q11>[1-4])",
            rf"{_QUARTER % 'q12'}(?: of)?,? {_YEAR % 'y12'}",
            rf"{_HAN_YEAR % 'y13'}\s?年?第?(?P<q13>[1-4一二三四])季度?",
            r"(?P<y14>[一二][〇○零一二三四五六七八九]{3})年",
            r"(?<![\d.,])(?P<alone>(?:19|20)\d\d)(?:年|(?![\d.,%]*\d))",
        ]
    )
)

_BEFORE_MONTH = (
    "in|of|during|for|since|until|till|by|from|to|through|throughout|between|before|after"
    "|excluding|except|without"
)
_FULL = "january|february|april|june|july|august|september|october|november|december"
_NOT_BEHIND = r"(?<![\d.个近去前一二三四五六七八九十])"
_WITHOUT_YEAR = re.compile(
    "|".join(
        [
            rf"(?<!\d){_DAY % 'd1'}(?: of)? {_MONTH % 'm1'}(?!\w)",
            rf"\b{_MONTH % 'm2'} {_DAY % 'd2'}(?!\d)",
            rf"(?<![\d一二三四五六七八九十]){_NUMBER % 'm3'}\s?月\s?{_NUMBER % 'd3'}\s?[日号]",
            r"(?<![\d.])(?P<m4>0[1-9]|1[0-2])-(?P<d4>[0-3]\d)(?![-\d])",
            rf"\b(?P<m5>{_FULL})\b",
            rf"\b(?:{_BEFORE_MONTH}) {_MONTH % 'm6'}(?! ?\d)",
            r"\b(?P<m7>may|march)(?='s\b)",
            rf"{_NOT_BEHIND}(?P<m8>0?[1-9]|1[0-2]|十[一二]?|[一二三四五六七八九])\s?月份?"
            r"(?!\s?\d|期|线|均)",
            r"\bq(?P<q9>[1-4])(?!\w)",
            rf"\b{_QUARTER % 'q10'}",
            rf"{_NOT_BEHIND}第?(?P<q11>[1-4一二三四])季度?",
        ]
    )
)
"""A day, a month or a quarter without a year. `may` and `mar` are months behind a preposition."""

_JOINS = re.compile(
    r"\s*(?:起|开始)?\s*(?:up to|to|through|thru|until|till|and|[-~–—]+|至|到|和|与|以及|、)"
    r"\s*(?:the )?\s*"
)
_WORDS_BEFORE = 56
"""How far before a day the words that count from it begin at most, in characters."""

JOIN_CHARS = 24
"""How far apart the ends of a range stand at most."""

_AND = frozenset({"and", "和", "与", "以及", "、"})
_BETWEEN = re.compile(r"between|within|之间|期间")
_OPENED: Mapping[Opening, re.Pattern[str]] = {
    "before": re.compile(r"(?:before|prior to|earlier than)(?: the)?\s*$"),
    "after": re.compile(r"(?:after|(?<!no )(?<!not )later than)(?: the)?\s*$"),
    "until": re.compile(r"(?:until|till|up to|by|no(?:t)? later than|截至|截止)\s*$"),
    "since": re.compile(r"(?:since|from|starting|no(?:t)? earlier than|自|从)\s*$"),
}
_OPENED_BEHIND: Mapping[Opening, re.Pattern[str]] = {
    "before": re.compile(r"\s*(?:之前|以前|前)"),
    "after": re.compile(r"\s*之后"),
    "until": re.compile(r"\s*or earlier"),
    "since": re.compile(r"\s*(?:onwards?|or later|以后|以来|起|后)"),
}
_OTHERS: Mapping[Opening, Opening] = {
    "before": "since",
    "until": "after",
    "since": "before",
    "after": "until",
}
"""What is left where one of these is excluded: `not before June` is since June."""

_ALSO = re.compile(r"\s?(?:,|，|、|和|与|及|以及|或|(?:, ?)?\b(?:and|or|nor)\b)\s?")
"""Joins days of which all are excluded: `except May and June`."""

_ALSO_CHARS = 8

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NEIGHBOURS_BEFORE = re.compile(
    rf"(?:\b(?P<every>each|every|any|all|per) )?(?:\b(?:last|first|next|previous) )?"
    rf"(?:\b{COUNT}[- ])?(?:(?:trading|business|calendar) )?"
    rf"\b(?P<unit>day|session|week|month|quarter|year|{'|'.join(_WEEKDAYS)})(?P<many>s?) "
    r"(?:immediately |right |just )?(?P<way>before|prior to|preceding|after|following)"
    r"(?: the)?(?: on)?\s*$"
)
_NEIGHBOURS_BEHIND = re.compile(
    rf"\s?(?:的|和|与|及|以及)?其?(?:(?P<before>(?:之|以)?前|上)|(?:之|以)?后|下)面?的?第?\s?"
    rf"(?P<n>\d{{1,3}}|{HAN})\s?(?:个?(?P<unit>交易日|天|日|星期|周|月|季度|年))(?![初底末均线])"
    r"|\s?(?:的|和|与|及|以及)?(?:次|翌|第二|后一)[天日]"
    r"|,? ?\band (?:on )?the (?:(?P<before2>previous|preceding|prior)|next|following)"
    r" (?:trading |business )?(?:day|session)\b"
    r"|,? ?\band (?:on )?the (?:trading |business )?(?:day|session) (?:(?P<before3>before)|after)\b"
    r"(?! (?:the )?\d)"
)
_HAN_UNITS = {"星期": "week", "周": "week", "月": "month", "季度": "quarter", "年": "year"}
_COMPARED = re.compile(
    r"(?:than|above|below|over|under|exceed(?:s|ing)?|[<>=≥≤]|超过|低于|高于|大于|小于|多于|少于)\s*$"
)


@dataclass(frozen=True, slots=True)
class Dates:
    """The days that a text names, and the text with blanks in their places."""

    spans: tuple[Span, ...]
    recurring: tuple[Recurring, ...]
    plain: str


def dates_of(text: str) -> Dates:
    """The days that a text in lower case names."""
    matches = [match for match in _DATES.finditer(text) if not _is_compared(match)]
    orders = _orders(matches)
    read = [_read(text, matches, day_first=day_first) for day_first in orders]
    spans = dict.fromkeys(span for one in read for span in one.spans)
    return replace(read[0], spans=tuple(spans))


def _is_compared(match: re.Match[str]) -> bool:
    """Whether a year alone is a number with which something is compared: `smaller than 1904`."""
    before = match.string[max(match.start() - 12, 0) : match.start()]
    return match["alone"] is not None and _COMPARED.search(before) is not None


def _orders(matches: Sequence[re.Match[str]]) -> list[bool]:
    """Whether the day comes first in dates like 05/06/2026: as the others of them say, or both."""
    pairs = [(int(m["a9"]), int(m["b9"])) for m in matches if m["sep"] in ("/", "-")]
    if any(a > 12 for a, _ in pairs):
        return [True]
    return [False, True] if pairs and all(b <= 12 for _, b in pairs) else [False]


def _read(text: str, matches: Sequence[re.Match[str]], *, day_first: bool) -> Dates:
    dated = [(match.start(), match.end(), _span(match, day_first=day_first)) for match in matches]
    plain = blanked(text, ((start, end) for start, end, _ in dated))  # also a 31 June 2026
    without_year = [*islice(_without_year(plain), MOST)]
    places = [(one.place, one.end) for one in without_year]
    excluded = _excluded(text, [*((start, end) for start, end, _ in dated), *places])
    found = [
        (start, end, replace(span, is_excluded=start in excluded))
        for start, end, span in dated
        if span is not None
    ]
    spans, covered = _joined(text, found)
    recurring: list[Recurring] = []
    for bare in without_year:
        one = replace(bare, is_excluded=bare.place in excluded)
        near = _neighbours(text, one.place, one.end)
        if near is not None and one.first == one.last:
            covered.append(near[1:])
            recurring.append(replace(one, neighbours=near[0]))
        elif (joined := _with_year(text, one, found, spans)) is not None:
            spans = joined
        elif recurring and _is_range(text, recurring[-1], one) and recurring[-1].first <= one.last:
            before = recurring.pop()
            recurring.append(replace(before, last=one.last, end=one.end, opening=""))
        else:
            opening, is_not = _opening(text, one.place, one.end), one.is_excluded
            if is_not and opening:
                opening, is_not = _OTHERS[opening], False
            recurring.append(replace(one, is_excluded=is_not, opening=opening))
    return Dates(tuple(dict.fromkeys(spans)), tuple(recurring), blanked(plain, covered + places))


def _excluded(text: str, places: Sequence[tuple[int, int]]) -> set[int]:
    """Where days start that a text excludes, maybe together with those right before them."""
    excluded: set[int] = set()
    stop = -_ALSO_CHARS
    for start, end in sorted(places):
        is_also = start - stop < _ALSO_CHARS and _ALSO.fullmatch(text[stop:start])
        if is_also or is_excluded(text, start, end):
            excluded.add(start)
            stop = end
    return excluded


def _neighbours(text: str, start: int, end: int) -> tuple[Neighbours, int, int] | None:
    """The neighbours of the days from `start` to `end` that a text asks for, and where it does."""
    before = text[max(start - _WORDS_BEFORE, 0) : start]
    if (found := _NEIGHBOURS_BEFORE.search(before)) is not None:
        if found["every"] or (found["many"] and not found["n"]):
            return None  # `on days before` are all such days
        is_before = found["way"] not in ("after", "following")
        said = found["unit"]
        unit: str | int = "row" if said in ("day", "session") else said
        if said in _WEEKDAYS:
            unit = _WEEKDAYS.index(said)
        count = max(number_of(found["n"] or "one"), 1)
        return Neighbours(count, unit, is_before), start - len(before) + found.start(), start
    if (found := _NEIGHBOURS_BEHIND.match(text, end)) is not None:
        count = max(number_of(found["n"] or "one"), 1)
        unit = _HAN_UNITS.get(found["unit"] or "", "row")
        is_before = (found["before"] or found["before2"] or found["before3"]) is not None
        return Neighbours(count, unit, is_before), end, found.end()
    return None


def blanked(text: str, places: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> str:
    """A text with blanks in some places, each from a start to an end."""
    characters = [*text]
    for start, end in places:
        characters[start:end] = BLANK * (end - start)
    return "".join(characters)


def _joined(
    text: str, found: Sequence[tuple[int, int, Span]]
) -> tuple[list[Span], list[tuple[int, int]]]:
    """The spans, with those joined that are the two ends of a range; and where their neighbours
    are named.
    """
    spans: list[Span] = []
    covered: list[tuple[int, int]] = []
    waiting = [*reversed(found)]
    while waiting:
        start, end, span = waiting.pop()
        if waiting:
            then, stop, later = waiting[-1]
            if later.end >= span.start and _is_between(text, start, end, then, stop):
                waiting.pop()
                spans.append(replace(span, end=later.end))
                continue
        if (near := _neighbours(text, start, end)) is not None:
            covered.append(near[1:])
            spans.append(replace(span, neighbours=near[0]))
        else:
            opening = _opening(text, start, end)
            if span.is_excluded and opening:
                span, opening = replace(span, is_excluded=False), _OTHERS[opening]
            spans.append(span.opened(opening))
    return spans, covered


def _is_between(text: str, start: int, end: int, then: int, stop: int) -> bool:
    """Whether what stands from `start` to `end` and from `then` to `stop` are ends of a range."""
    between = text[end:then]
    if len(between) > JOIN_CHARS or _JOINS.fullmatch(between) is None:
        return False
    around = text[max(start - 12, 0) : start] + text[stop : stop + 4]
    return between.strip() not in _AND or _BETWEEN.search(around) is not None


def _is_range(text: str, one: Recurring, then: Recurring) -> bool:
    return _is_between(text, one.place, one.end, then.place, then.end)


def _opening(text: str, start: int, end: int) -> Opening:
    """Which end of the days from `start` to `end` is open."""
    before = text[max(start - 24, 0) : start]
    for opening, words in _OPENED.items():
        if words.search(before) or _OPENED_BEHIND[opening].match(text, end):
            return opening
    return ""


def _with_year(
    text: str, one: Recurring, found: Sequence[tuple[int, int, Span]], spans: Sequence[Span]
) -> list[Span] | None:
    """The spans with days without a year beside one that has a year, as in `May 23, 2026 - 29 May`:
    as its other end, or as days of that year.
    """
    for start, end, span in found:
        if min(abs(one.place - end), abs(start - one.end)) > JOIN_CHARS:
            continue
        there = one.of(span.start.year)
        if one.place >= end and _JOINS.fullmatch(text[end : one.place]):
            is_end = there.end >= span.start
            is_range = is_end and _is_between(text, start, end, one.place, one.end)
            whole = replace(there, start=span.start)
        elif start >= one.end and _JOINS.fullmatch(text[one.end : start]):
            is_end = there.start <= span.end
            is_range = is_end and _is_between(text, one.place, one.end, start, end)
            whole = replace(there, end=span.end)
        else:
            continue
        if is_range:
            return [*(other for other in spans if not _has(other, span)), whole]
        return [*spans, there]
    return None


def _has(other: Span, span: Span) -> bool:
    """Whether a span is another one, maybe with an open end."""
    openings: tuple[Opening, ...] = ("", "before", "until", "since", "after")
    return any(
        (other.start, other.end) == (opened.start, opened.end)
        for opened in map(span.opened, openings)
    )


def _without_year(text: str) -> Iterator[Recurring]:
    for match in _WITHOUT_YEAR.finditer(text):
        groups = _groups(match)
        if quarter := groups.get("q"):
            number = number_of(quarter)
            if not 1 <= number <= 4:
                continue
            first, last = f"-{3 * number - 2:02}-01", f"-{3 * number:02}-31"
        else:
            month, day = _month(groups["m"]), number_of(groups.get("d", "1"))
            if not 1 <= month <= 12 or not 1 <= day <= end_of(2024, month).day:
                continue  # 2024 has a 29th of February
            first = f"-{month:02}-{day:02}"
            last = first if "d" in groups else f"-{month:02}-31"
        is_month = match.lastgroup == "m6"  # a preposition is before it
        yield Recurring(first, last, match.start("m6") if is_month else match.start(), match.end())


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {name.rstrip("0123456789"): text for name, text in match.groupdict().items() if text}


def _span(match: re.Match[str], *, day_first: bool) -> Span | None:
    groups = _groups(match)
    try:
        year = number_of(groups.get("y") or groups["alone"])
        if quarter := groups.get("q"):
            number = number_of(quarter)
            return Span(date(year, 3 * number - 2, 1), end_of(year, 3 * number))
        if "sep" in groups:
            is_day_first = day_first or groups["sep"] == "."
            a, b = int(groups["a"]), int(groups["b"])
            there = date(year, b, a) if is_day_first else date(year, a, b)
            return Span(there, there)
        if not (month := groups.get("m")):
            return Span(date(year, 1, 1), date(year, 12, 31))
        if day := groups.get("d"):
            there = date(year, _month(month), number_of(day))
            return Span(there, there)
        return Span(date(year, _month(month), 1), end_of(year, _month(month)))
    except ValueError:  # a 13th month, a 31st of June
        return None


def _month(text: str) -> int:
    if not text.isascii() or text.isdigit():
        return number_of(text)
    return next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(text[:3]))
