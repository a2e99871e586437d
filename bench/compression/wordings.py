"""How users say things: questions, columns, dates, numbers and periods, in English and Chinese.

Questions are in `wordings.tsv`, columns in `columns.tsv`. They were written for this bench and are
not those of the gateway.
"""

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from bench.compression.case import Language

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FEW: Mapping[Language, Sequence[str]] = {
    "en": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    "zh": ("零", "一", "两", "三", "四", "五", "六", "七", "八", "九", "十"),
}
_FIRST: Mapping[Language, Mapping[bool, Sequence[str]]] = {
    "en": {True: ("first", "earliest"), False: ("latest", "newest", "most recent", "last")},
    "zh": {True: ("最早", "最开始"), False: ("最新", "最近", "最后")},
}
_HIGHEST: Mapping[Language, Mapping[bool, Sequence[str]]] = {
    "en": {True: ("highest", "largest", "greatest", "biggest"), False: ("lowest", "smallest")},
    "zh": {True: ("最高", "最大"), False: ("最低", "最小")},
}
_ABOVE: Mapping[Language, Mapping[bool, Sequence[str]]] = {
    "en": {
        True: ("above", "over", "greater than", "more than", "higher than", "exceeding"),
        False: ("below", "under", "less than", "lower than", "smaller than"),
    },
    "zh": {
        True: ("超过", "高于", "大于", "多于", "在{}以上"),
        False: ("低于", "小于", "不足", "少于", "不到"),
    },
}


_SLOT = re.compile(r"{(\w+)}")
_SLOT_OR_TEXT = re.compile(r"{\w+}|[^{]+")
_ASKS_DAY = re.compile(r"\b([Ww]hen|days?|dated?)\b|什么时候|日期|每天|逐日")


def _lines(name: str) -> list[list[str]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


@cache
def questions() -> Mapping[tuple[str, str], Sequence[str]]:
    """The wordings by kind and language."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for kind, language, text in _lines("wordings.tsv"):
        found[kind, language].append(text)
    return found


@dataclass(frozen=True, slots=True)
class Concept:
    """What a column holds, in users' words."""

    phrases: Mapping[Language, Sequence[str]]
    is_percent: bool


@cache
def concepts() -> Mapping[str, Concept]:
    """Concepts by the names of columns."""
    found = dict[str, Concept]()
    for names, english, chinese in _lines("columns.tsv"):
        phrases: Mapping[Language, Sequence[str]] = {
            "en": english.split(";"),
            "zh": chinese.split(";"),
        }
        concept = Concept(phrases, "%" in names.split())
        found.update((name, concept) for name in names.split() if name != "%")
    return found


def column_phrase(
    name: str, names: Sequence[str], language: Language, rng: random.Random
) -> str | None:
    """What a user calls a column of a table with columns `names`: its own name, or words for it.
    None if the user has no word for it, or one that might mean another column too.
    """
    concept = concepts().get(name)
    if concept is not None and any(concepts().get(o) is concept for o in names if o != name):
        return None
    is_chinese = not name.isascii()
    own = [name] if is_chinese == (language == "zh") else []
    said = [] if concept is None else list(concept.phrases[language])
    if not said and (is_chinese or len(name) < 2):
        return rng.choice(own) if own else None
    taken = {phrase.lower() for o in names if o != name for phrase in (o, *_said(o, language))}
    said = [phrase for phrase in said if phrase.lower() not in taken]
    pool = own + said
    return rng.choice(own if own and rng.random() < 0.3 else pool) if pool else None


def _said(name: str, language: Language) -> Sequence[str]:
    concept = concepts().get(name)
    return concept.phrases[language] if concept else ()


def ask(
    kind: str, language: Language, rng: random.Random, said: Mapping[str, str], *, is_dated: bool
) -> str:
    """A question of a kind with what is said in it; one that asks for a day only if rows have one.

    Words that would run together, such as a code and a date in Chinese, have a space between them.
    """
    pool = [
        text
        for text in questions()[kind, language]
        if set(_SLOT.findall(text)) <= said.keys() and (is_dated or not _ASKS_DAY.search(text))
    ]
    made = ""
    for part in _SLOT_OR_TEXT.findall(rng.choice(pool)):
        word = said[part[1:-1]] if part[0] == "{" else part
        made += " " + word if made and _run_together(made[-1], word[0]) else word
    made = made.strip()
    return made[0].upper() + made[1:] if language == "en" and rng.random() < 0.9 else made


def _run_together(end: str, start: str) -> bool:
    return (end + start).isascii() and end.isalnum() and start.isalnum()


def day_phrases(
    day: date, language: Language, rng: random.Random, *, is_month: bool, is_one_year: bool
) -> dict[str, str]:
    """A day, or a month, as `date`, and as `on` with its preposition.

    `is_one_year` allows to leave the year out, because no other year is possible.
    """
    month, short = _MONTHS[day.month - 1], _MONTHS[day.month - 1][:3]
    y, m, d = day.year, day.month, day.day
    if language == "zh":
        forms = [f"{y}年{m}月", f"{y}年{m:02}月", f"{y}-{m:02}"]
        if not is_month:
            forms = [f"{y}年{m}月{d}日", f"{y}-{m:02}-{d:02}", f"{y}{m:02}{d:02}", f"{y}/{m}/{d}"]
            forms += [f"{y}年{m:02}月{d:02}日", f"{y}.{m:02}.{d:02}"]
            forms += [f"{m}月{d}日"] if is_one_year else [f"{y}年{m}月{d}号"]
    else:
        forms = [f"{month} {y}", f"{short} {y}", f"{y}-{m:02}"]
        if not is_month:
            forms = [
                f"{d} {month} {y}",
                f"{short} {d}, {y}",
                f"{month} {d}, {y}",
                f"{short} {d} {y}",
            ]
            forms += [f"{y}-{m:02}-{d:02}", f"{y}{m:02}{d:02}", f"{y}/{m:02}/{d:02}"]
            forms += [f"{short} {_ordinal(d)}, {y}", f"{d} {short} {y}"]
            forms += [f"{month} {d}", f"{d} {short}"] if is_one_year else []
    chosen = rng.choice(forms)
    return {"date": chosen, "on": ("in " if is_month else "on ") + chosen}


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number in (11, 12, 13) else ending}"


def few(number: int, language: Language, rng: random.Random) -> str:
    """A small number in words or digits."""
    return _FEW[language][number] if number <= 10 and rng.random() < 0.6 else str(number)


def highest(is_highest: bool, language: Language, rng: random.Random, *, is_signed: bool) -> str:
    """`highest` or a word for it; if some numbers are negative, none like `smallest`."""
    pool = _HIGHEST[language][is_highest]
    return pool[0] if is_signed else rng.choice(pool)


def first(is_first: bool, language: Language, rng: random.Random) -> str:
    return rng.choice(_FIRST[language][is_first])


def above(
    bound: float, is_above: bool, language: Language, rng: random.Random, *, is_percent: bool
) -> str:
    """A comparison with a bound, for instance `over 1.2 million`, `超过120万` or `below 5 %`."""
    words = rng.choice(_ABOVE[language][is_above])
    number = f"{bound:.10g}" if abs(bound) < 1e10 else f"{bound:.0f}"
    forms = [number + (rng.choice(("%", "", " %")) if is_percent else "")]
    units = (
        ((1e8, "亿"), (1e4, "万")) if language == "zh" else ((1e9, " billion"), (1e6, " million"))
    )
    forms += [f"{bound / size:.10g}{unit}" for size, unit in units if abs(bound) >= size][:1]
    if abs(bound) >= 1e4 and bound == int(bound):
        forms.append(f"{int(bound):,}")
    said = rng.choice(forms)
    if "{}" in words:
        return words.format(said)
    return f"{words} {said}" if language == "en" else words + said


def records(
    language: Language, is_dated: bool, is_month: bool, rng: random.Random
) -> dict[str, str]:
    """What rows are called: `row`, `rows`, and in Chinese `unit` and `which`."""
    if language == "en":
        pool: tuple[str, ...] = ("entry/entries", "row/rows", "record/records", "one/ones")
        if is_dated:
            pool = (
                ("month/months",)
                if is_month
                else ("day/days", "date/dates", "trading day/trading days")
            )
        row, _, rows = rng.choice(pool).partition("/")
        return {"row": row, "rows": rows}
    if not is_dated:
        return {"row": "记录", "rows": "记录", "unit": rng.choice(("条", "个")), "which": "哪一个"}
    if is_month:
        return {"row": "月份", "rows": "月份", "unit": "期", "which": "哪个月"}
    row = rng.choice(("交易日", "日期", "日子"))
    return {"row": row, "rows": row, "unit": "天", "which": rng.choice(("哪一天", "哪天"))}
