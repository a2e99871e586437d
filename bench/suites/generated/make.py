"""Makes tasks: a template, its slots drawn by a seed, and the answer that the world proves.

Task number n of a seed depends on the seed, n and the settings alone, so tasks can be made in any
number, one after the other. A draw whose answer is not one alone is drawn anew.
"""

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache, lru_cache
from hashlib import blake2b
from math import comb, factorial, floor, log10
from pathlib import Path
from typing import Any, Final

import orjson

from adapters.simulator.world.calendar import FIRST
from adapters.simulator.world.world import VERSION, World
from bench.suites.generated.answer import Answer
from bench.suites.generated.facts import (
    ANNUAL,
    Subject,
    View,
    WorldFacts,
    call_of,
    kinds_of,
    subjects,
    views,
)
from bench.suites.generated.program import Ambiguous, Leaf, Unknown, evaluate, expanded
from manifests import Catalog

LANGUAGES: Final = ("zh", "en")
DIFFICULTIES: Final = (1, 2, 3, 4, 5)
UNKNOWABLE: Final = 0.04
"""The share of tasks whose facts do not exist."""

_TRIES: Final = 2_000
_OF_TEMPLATE: Final = 200
"""So often is a template drawn before another one takes its place."""

_LONGEST: Final = 92
"""The most trading days of a range: an answer shows 100 rows."""

_FIRST_YEAR: Final = 2014
_FIRST_STATEMENTS: Final = 2021


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task; see the head of `templates.toml`."""

    name: str
    level: int
    kind: str
    program: str
    slots: Mapping[str, str]
    zh: tuple[str, ...]
    en: tuple[str, ...]
    unit: str = ""
    digits: int | None = None
    years: int = 0

    @property
    def asked(self) -> str:
        """The kind of answer that it asks for."""
        return "name" if self.kind == "choice" else self.kind

    @property
    def may_be_unknown(self) -> bool:
        """Whether its range may be one from which there are no facts."""
        if self.unit in ("days", "count") or self.kind == "list":
            return False  # nothing found is an answer: no day, none of them
        return not self.years and not {"quote", "pair", "rate"} & {*self.slots.values()}

    @property
    def least_chance(self) -> float:
        """How often the answer is that it cannot be known."""
        return UNKNOWABLE if self.may_be_unknown else 0.0


@cache
def templates() -> tuple[Template, ...]:
    text = (Path(__file__).parent / "templates.toml").read_text("utf-8")
    own = {"level", "kind", "program", "zh", "en", "unit", "digits", "years"}
    found = []
    for name, about in tomllib.loads(text).items():
        fields: dict[str, Any] = {key: about[key] for key in own & about.keys()}
        fields |= {language: tuple(about[language]) for language in LANGUAGES}
        slots = {slot: kind for slot, kind in about.items() if slot not in own}
        found.append(Template(name, slots=slots, **fields))
    return tuple(found)


_CLOSES: Final = (
    ("close", "share"), ("close", "share"), ("close", "hong_kong"), ("close", "states"),
    ("close", "index"), ("close", "etf"), ("close", "future"), ("value", "fund"),
    ("parity", "currency"),
)  # fmt: skip
_CLASSES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "close": _CLOSES,
    "price": (*_CLOSES, *((fact, "share") for fact in ("open", "high", "low")), ("open", "index"),
              ("high", "hong_kong"), ("low", "states")),
    "rate": (("bond_yield", "treasury"), ("bond_yield", "treasury"), ("fixing", "repo")),
    "volume": (("volume", "share"), ("volume", "hong_kong"), ("volume", "states"),
               ("volume", "etf")),
    "equity": (("close", "share"), ("close", "hong_kong"), ("close", "states")),
    "share": (("close", "share"),),
    "states": (("close", "states"),),
    "index": (("close", "index"),),
    "dollar": (("parity", "currency"),),
    "quote": (("quote", "states"),),
    **{about: tuple((fact, kind) for fact in facts.split() for kind in kinds.split())
       for about, facts, kinds in (
           ("annual", "revenue net_income eps", "share share hong_kong states"),
           ("amount", "revenue net_income", "share share hong_kong states"),
           ("net_income", "net_income", "share hong_kong states"),
           ("eps", "eps", "share hong_kong states"),
           ("liabilities", "liabilities", "share states"),
       )},
    "pair": (("rate", "pair"),),
}  # fmt: skip
_ANY: Final = ("price", "price", "price", "rate", "volume")

_DIGITS: Final = {
    "close": 2, "open": 2, "high": 2, "low": 2, "volume": 0, "value": 4, "parity": 2,
    "bond_yield": 4, "fixing": 4, "quote": 2, "rate": 4, "eps": 4, "revenue": 0, "net_income": 0,
    "liabilities": 0, "assets": 0,
}  # fmt: skip
_PHRASES: Final[Mapping[str, tuple[str, str]]] = {
    "close": ("{name}的收盘价", "the closing price of {name}"),
    "close index": ("{name}的收盘点位", "the closing level of {name}"),
    "open": ("{name}的开盘价", "the opening price of {name}"),
    "open index": ("{name}的开盘点位", "the opening level of {name}"),
    "high": ("{name}的盘中最高价", "the daily high of {name}"),
    "low": ("{name}的盘中最低价", "the daily low of {name}"),
    "volume": ("{name}的成交量（股）", "the trading volume, in shares, of {name}"),
    "volume etf": ("{name}的成交量（份）", "the trading volume, in units, of {name}"),
    "value": ("{name}的单位净值", "the net asset value per unit of {name}"),
    "parity": (
        "{name}兑人民币中间价（人民币元/100外币）",
        "the central parity rate of {name} against the yuan (yuan per 100 units)",
    ),
    "bond_yield": ("{name}收益率（%）", "the yield on {name} (in percent)"),
    "fixing": ("回购定盘利率{name}（%）", "the repo fixing rate {name} (in percent)"),
    "revenue": ("{name}的营业收入", "the revenue of {name}"),
    "net_income": ("{name}的归母净利润", "the net income of {name} attributable to shareholders"),
    "eps": ("{name}的基本每股收益", "the basic earnings per share of {name}"),
    "assets": ("{name}的总资产", "the total assets of {name}"),
    "liabilities": ("{name}的总负债", "the total liabilities of {name}"),
    "quote": ("{name}的最新价", "the latest price of {name}"),
    "rate": ("{name}的最新汇率", "the latest {name} exchange rate"),
}
"""A fact of a subject, in Chinese and English; that of a kind of subject goes first."""

_WHAT: Final[Mapping[str, tuple[str, str]]] = {
    "close": ("收盘价", "closing price"),
    "close index": ("收盘点位", "closing level"),
    "volume": ("成交量（股）", "trading volume (in shares)"),
    "volume etf": ("成交量（份）", "trading volume (in units)"),
    "revenue": ("营业收入", "revenue"),
    "net_income": ("归母净利润", "net income attributable to shareholders"),
    "eps": ("基本每股收益", "basic earnings per share"),
    "value": ("单位净值", "net asset value per unit"),
    "parity": (
        "兑人民币中间价（人民币元/100外币）",
        "central parity rate against the yuan (yuan per 100 units)",
    ),
}
_MONEY: Final[Mapping[str, tuple[str, str]]] = {
    "share": ("元人民币", "yuan"), "hong_kong": ("港元", "Hong Kong dollars"),
    "states": ("美元", "US dollars"),
}  # fmt: skip
_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "%": ("以百分比表示", "in percent"), "pp": ("以百分点表示", "in percentage points"),
    "yuan": ("单位为元", "in yuan"), "millions": ("单位为百万", "in millions"),
    "money": ("单位为{money}", "in {money}"), "": ("", ""),
}  # fmt: skip
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "truth": ("只回答“是”或“否”。", "Answer yes or no."),
    "date": ("日期写成YYYY-MM-DD。", "Write the date as YYYY-MM-DD."),
    "name": ("只写出名称。", "Give only the name."),
    "list": ("只列出符合条件的名称。", "List just the names that qualify."),
    "ranking": ("依次列出名称。", "List the names in that order."),
}
"""In what form an answer is to be given that is no number."""

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_NOISE: Final[Mapping[str, Sequence[str]]] = {
    "zh": (
        "同事印象中大概是{x}，但他不确定。", "上周的晨会纪要里写过一个{x}，那是另一只产品的。",
        "我手头的旧表格是{year}年的，已经过期，不要参考。", "报告第{page}页要用到这个结果。",
        "客户那边有{page}个人在等这个数。", "先别管别的，只回答下面的问题。",
    ),
    "en": (
        "A colleague remembers something like {x}, but is not sure.",
        "My old spreadsheet dates from {year}, so ignore it.",
        "This goes on page {page} of the report.",
        "A figure of {x} was mentioned on Monday, but for another product.",
        "There are {page} people waiting for this.", "Leave everything else aside for now.",
    ),
}  # fmt: skip
_GROUP: Final = {3: (2, 4), 4: (3, 5), 5: (4, 6)}
_OFFERED: Final = {1: 4, 2: 6, 3: 10, 4: 16, 5: 24}


@dataclass(slots=True)
class _Draw:
    """What was drawn for one task."""

    rng: random.Random
    difficulty: int
    language: str
    slots: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    named: list[Subject] = field(default_factory=list)
    """The subjects that an answer may name."""
    fact: str = ""
    kind: str = ""

    @property
    def place(self) -> int:
        return LANGUAGES.index(self.language)


class MakeError(Exception):
    """A world gives no task; the text says where."""


class Maker:
    """Makes the tasks of a world."""

    def __init__(
        self,
        world: World,
        *,
        seed: int,
        difficulties: Sequence[int] = DIFFICULTIES,
        languages: Sequence[str] = LANGUAGES,
    ) -> None:
        self._facts = WorldFacts(world)
        self._world = world
        self._seed = seed
        self._difficulties = tuple(difficulties)
        self._languages = tuple(languages)
        self._tools = sorted(tool.name for tool in Catalog.load())

    def tasks(self, number: int) -> Iterator[dict[str, Any]]:
        """So many tasks, no two with the same question."""
        seen, place = set[bytes](), 0
        while len(seen) < number:
            task = self._task(place)
            place += 1
            name = bytes.fromhex(task["id"])
            if name not in seen:
                seen.add(name)
                yield task

    def _task(self, place: int) -> dict[str, Any]:
        rng = random.Random(f"{VERSION} {self._seed} {place}")  # noqa: S311 - no secret
        difficulty = self._difficulties[place % len(self._difficulties)]
        language = self._languages[place // len(self._difficulties) % len(self._languages)]
        levels = (difficulty, difficulty, difficulty, max(difficulty - 1, 1))
        level = rng.choice(levels)
        choice = [one for one in templates() if one.level == level]
        template, wanted, is_unknown = choice[0], rng.random() < 0.5, False
        for number in range(_TRIES):
            if number % _OF_TEMPLATE == 0:
                template = rng.choice(choice)
                is_unknown = rng.random() < UNKNOWABLE and template.may_be_unknown
            draw = _Draw(rng, difficulty, language)
            try:
                self._draw(template, draw, is_unknown=is_unknown)
                made = self._made(template, draw, wanted=wanted)
            except Ambiguous:
                continue
            if made is not None and (made["answer"].kind == "unknown") == is_unknown:
                return self._written(template, draw, made)
        raise MakeError(f"no draw for task {place} has one answer in this world")

    # --- drawing the slots -----------------------------------------------------------------------

    def _draw(self, template: Template, draw: _Draw, *, is_unknown: bool) -> None:
        rng, slots = draw.rng, template.slots
        main = slots.get("a") or slots["m"]
        draw.fact, draw.kind = self._fact_of(main, draw)
        is_recent = all(view.reach for view in _views_of(draw.fact, draw.kind))
        if is_recent and is_unknown:
            raise Ambiguous("tools that answer the last days alone always answer")
        first, last = self._range(draw, is_recent=is_recent, is_unknown=is_unknown)
        if template.years:
            first, last = self._years(draw, template.years)
        now = self._world.now
        if draw.fact in ("quote", "rate"):
            first = last = now
        in_words = _year_words if template.years else _range_words
        draw.words["during"] = in_words(first, last, draw)
        later = None
        if {"a2", "m2"} & slots.keys():
            later = self._range(draw, is_recent=is_recent, is_unknown=is_unknown)
            if abs((later[0] - last).days) > 500 or later[0] <= last:
                raise Ambiguous("the later range is not later, or far away")
            draw.words["later"] = _range_words(*later, draw)
        for slot, about in slots.items():
            if slot in ("a", "b", "c"):
                self._draw_series(draw, slot, "=a" if about == main else about, first, last)
            elif slot == "m":
                group = self._group(draw)
                draw.slots["m"] = {
                    s.key: self._leaf(draw, draw.fact, s, first, last) for s in group
                }
                names = [_name(s, draw) for s in group]
                draw.words["m"] = _joined(names, draw.language)
            elif slot in ("a2", "m2"):
                days = (first, last) if about == "same" or later is None else later
                of = draw.slots[slot[0]]
                draw.slots[slot] = (
                    self._moved(of, *days)
                    if isinstance(of, Leaf)
                    else {key: self._moved(leaf, *days) for key, leaf in of.items()}
                )
        key = f"{draw.fact} {draw.kind}"
        draw.words["what"] = (_WHAT.get(key) or _WHAT.get(draw.fact) or ("", ""))[draw.place]
        for slot in ("n", "k"):
            if slot in slots:
                scale = 10 if slots[slot] == "amount" else 100
                draw.slots[slot] = scale * rng.randint(1, 60)
                draw.words[slot] = f"{draw.slots[slot]:,}"
        if re.search(r"\b[de]\b", template.program):
            self._draw_days(draw, template)
        if "x" in slots:
            self._draw_bound(draw, slots["x"])

    def _draw_series(self, draw: _Draw, slot: str, about: str, first: date, last: date) -> None:
        """One series: of the same fact as `a`, of another fact of its subject, or of a class."""
        if about.startswith("of_a "):
            fact, subject = about[5:], subjects()[draw.slots["a_name"]]
        else:
            fact, kind = (draw.fact, draw.kind) if about == "=a" else self._fact_of(about, draw)
            subject = self._subject(draw, kind, "USD" if about == "dollar" else "")
        draw.slots[slot] = self._leaf(draw, fact, subject, first, last)
        draw.slots[f"{slot}_name"] = subject.key
        self._word(draw, slot, fact, subject)

    def _fact_of(self, about: str, draw: _Draw) -> tuple[str, str]:
        about = draw.rng.choice(_ANY) if about == "any" else about
        return draw.rng.choice(_CLASSES[about])

    def _range(self, draw: _Draw, *, is_recent: bool, is_unknown: bool) -> tuple[date, date]:
        """A range of days: of the calendar by its words from difficulty 2 on, or by two dates."""
        rng, now = draw.rng, self._world.now
        if is_recent:
            last = now - timedelta(rng.randint(1, 40))
            first = last - timedelta(rng.randint(14, 80))
            return first, last
        year = rng.randint(2001, 2003) if is_unknown else rng.randint(_FIRST_YEAR, now.year)
        month = rng.randint(1, 12)
        if draw.difficulty >= 2 and rng.random() < 0.6:
            length = rng.choice((1, 1, 3))
            month = month if length == 1 else 3 * ((month - 1) // 3) + 1
            first = date(year, month, 1)
            last = _after(first, length) - timedelta(1)
        else:
            first = date(year, month, rng.randint(1, 28))
            last = first + timedelta(rng.randint(20, 110))
        if last >= now:
            raise Ambiguous("the range is not over")
        return first, last

    def _years(self, draw: _Draw, number: int) -> tuple[date, date]:
        """Years of which all companies have published their statements."""
        now = self._world.now
        latest = now.year - 1 if now >= date(now.year, 5, 1) else now.year - 2
        if latest < _FIRST_STATEMENTS + number - 1:
            raise Ambiguous("too few years are published")
        last = draw.rng.randint(_FIRST_STATEMENTS + number - 1, latest)
        return date(last - number + 1, 1, 1), date(last, 12, 31)

    def _subject(self, draw: _Draw, kind: str, code: str = "") -> Subject:
        """A subject of a kind that was not drawn yet."""
        taken = {leaf.subject for leaf in draw.slots.values() if isinstance(leaf, Leaf)}
        found = [s for s in _of_kind(kind) if s.key not in taken and code in ("", s.code)]
        if not found:
            raise Ambiguous("too few subjects")
        return draw.rng.choice(found)

    def _group(self, draw: _Draw) -> list[Subject]:
        least, most = _GROUP[max(draw.difficulty, 3)]
        every = _of_kind(draw.kind)
        number = draw.rng.randint(least, most)
        if len(every) < number:
            raise Ambiguous("too few subjects")
        draw.named = draw.rng.sample(every, number)
        return draw.named

    def _leaf(self, draw: _Draw, fact: str, subject: Subject, first: date, last: date) -> Leaf:
        is_past = last < FIRST
        fitting = [
            view
            for view in _views_of(fact, subject.kind)
            if kinds_of(subject.key) & {*view.subjects} and not (is_past and view.refuses)
        ]
        view = draw.rng.choice(fitting)
        if fact not in ANNUAL and first.month == 1 and last - first > timedelta(360):
            first = date(last.year, 12, 1)  # the price at the end of a year
        leaf = Leaf(fact, subject.key, first, last, view.tool)
        self._check(leaf, view)
        return leaf

    def _check(self, leaf: Leaf, view: View) -> None:
        """Raises `Ambiguous` for a range that the view's tool does not show as a whole."""
        if leaf.fact in ANNUAL:
            return
        if len(self._facts.days(leaf)) > _LONGEST:
            raise Ambiguous("the range is too long for an answer")
        if view.reach:
            shown = self._world.days(subjects()[leaf.subject].exchange)[-view.reach :]
            if leaf.first < shown[0]:
                raise Ambiguous("the tool does not reach back so far")

    def _moved(self, leaf: Leaf, first: date, last: date) -> Leaf:
        moved = Leaf(leaf.fact, leaf.subject, first, last, leaf.tool)
        self._check(moved, views()[leaf.tool])
        return moved

    def _draw_days(self, draw: _Draw, template: Template) -> None:
        """One or two days that all series have."""
        leaves = [leaf for leaf in draw.slots.values() if isinstance(leaf, Leaf)]
        common = set(self._facts.days(leaves[0]))
        for leaf in leaves[1:]:
            common &= {*self._facts.days(leaf)}
        number = 2 if re.search(r"\be\b", template.program) else 1
        if len(common) < 3 * number:
            if not any(self._facts.days(leaf) for leaf in leaves):  # it can't be known
                common = {leaves[0].first + timedelta(n) for n in (1, 8)}
            else:
                raise Ambiguous("too few days in common")
        chosen = sorted(draw.rng.sample(sorted(common), number))
        for slot, day in zip("de", chosen, strict=False):
            draw.slots[slot] = str(day)
            draw.words[slot] = _day_words(day, draw.language)

    def _draw_bound(self, draw: _Draw, how: str) -> None:
        rng = draw.rng
        if how == "change":
            found = sorted(
                (series[-1][1] / series[0][1] - 1) * 100
                for series in map(self._series, draw.slots["m"].values())
            )
            bound = round(_between(found, rng), 1)
        elif how == "peak":
            found = sorted(max(v for _, v in self._series(s)) for s in draw.slots["m"].values())
            bound = _rounded(_between(found, rng), 3)
        else:
            values = sorted(value for _, value in self._series(draw.slots["a"]))
            share = rng.uniform(0.25, 0.8)
            bound = values[int(share * (len(values) - 1))]
            if how == "near_mean":
                mean = sum(values) / len(values)
                bound = mean * (1 + rng.choice((-1, 1)) * rng.uniform(0.003, 0.02))
            bound = _rounded(bound, 4)
        draw.slots["x"] = bound
        draw.words["x"] = f"{bound:,.10g}" if abs(bound) < 1e7 else f"{bound:,.0f}"

    def _series(self, leaf: Leaf) -> list[tuple[date, float]]:
        try:
            return self._facts(leaf)
        except Unknown:
            return [(leaf.first, 1.0), (leaf.last, 2.0)]

    # --- the answer and the text -----------------------------------------------------------------

    def _made(self, template: Template, draw: _Draw, *, wanted: bool) -> dict[str, Any] | None:
        """The program with its answer and the leaves that it read; None if a truth is not the one
        that is wanted.
        """
        program = expanded(template.program, draw.slots)
        read: dict[Leaf, None] = {}

        def reading(leaf: Leaf) -> list[tuple[date, float]]:
            read[leaf] = None
            return self._facts(leaf)

        asked = template.asked
        about: dict[str, Any] = {"asked": asked, "kind": asked, "chance": template.least_chance}
        if asked in ("name", "list", "ranking", "table"):
            slots = ("a_name", "b_name")
            named = draw.named or [subjects()[draw.slots[slot]] for slot in slots]
            about["options"] = {one.key: _aliases(one) for one in named}
        try:
            outcome = evaluate(program, reading)
        except Unknown:
            about["kind"] = "unknown"
            return {"answer": Answer(**about), "program": program, "leaves": list(read)}
        except ZeroDivisionError as error:
            raise Ambiguous("a figure is 0") from error
        value = outcome.value
        if isinstance(value, bool) and value != wanted:
            return None
        if template.unit in ("%", "pp") and value == 0:
            raise Ambiguous("nothing changed")
        number = len(about.get("options", ()))
        about |= _figures(template, value, _digits(template, draw), number)
        about["steps"] = tuple(dict.fromkeys(outcome.steps))
        return {"answer": Answer(**about), "program": program, "leaves": list(read)}

    def _word(self, draw: _Draw, slot: str, fact: str, subject: Subject) -> None:
        name = _name(subject, draw)
        phrase = _PHRASES.get(f"{fact} {subject.kind}") or _PHRASES[fact]
        draw.words[slot] = phrase[draw.place].format(name=name)
        draw.words[f"{slot}_name"] = name
        if subject.kind in _MONEY:
            draw.words[f"{slot}_money"] = _MONEY[subject.kind][draw.place]
        if subject.kind == "pair":
            draw.words |= {f"{slot}_{name}": code for name, code in subject.fields.items()}

    def _written(self, template: Template, draw: _Draw, made: dict[str, Any]) -> dict[str, Any]:
        """The task as a line of a file has it."""
        rng, language = draw.rng, draw.language
        wording = rng.choice(template.zh if language == "zh" else template.en)
        question = wording.format(**draw.words)
        if draw.difficulty >= 4 and rng.random() < 0.5:
            fits = [n for n in _NOISE[language] if "{x}" not in n or template.kind == "number"]
            noise = rng.choice(fits)
            words = {"x": rng.randint(20, 900), "year": rng.randint(2005, 2012)}
            said = noise.format(**words, page=rng.randint(2, 30))
            question = f"{said}{'' if language == 'zh' else ' '}{question}"
        question = _with_ending(
            question, self._asked_form(template, draw), language, self._world.now
        )
        leaves: list[Leaf] = made["leaves"]
        calls = [{"tool": tool, "arguments": given} for tool, given in map(call_of, leaves)]
        return {
            "id": blake2b(question.encode(), digest_size=8).hexdigest(),
            "question": question,
            "language": language,
            "difficulty": draw.difficulty,
            "template": template.name,
            "answer": made["answer"],
            "program": made["program"],
            "calls": calls,
            "tools": self._offered(draw, [leaf.tool for leaf in leaves]),
            "world": {
                "seed": self._world.seed, "now": str(self._world.now), "version": VERSION,
            },
        }  # fmt: skip

    def _asked_form(self, template: Template, draw: _Draw) -> str:
        """In what form the answer is to be given."""
        place, digits = draw.place, _digits(template, draw)
        if (form := _FORMS.get(template.asked)) is not None:
            return form[place]
        if digits == 0:
            return ("结果为整数。", "Give a whole number.")[place]
        money = draw.words.get("a_money", "")
        said = _UNITS.get(template.unit, ("", ""))[place].format(money=money)
        each = ("每项写成“名称: 数值”，", 'Write each as "name: number", ')
        head = each[place] if template.kind == "table" else ("结果", "Give the number ")[place]
        if place == 0:
            return f"{head}{said + '，' if said else ''}保留{digits}位小数。"
        return f"{head}{said + ', ' if said else ''}to {digits} decimal places."

    def _offered(self, draw: _Draw, needed: Sequence[str]) -> list[str]:
        """The tools that an agent is offered: those that are needed, and others that are not."""
        found = set(needed)
        similar = [tool for tool in views() if tool not in found]
        while len(found) < _OFFERED[draw.difficulty]:
            pool = similar if draw.rng.random() < 0.3 else self._tools
            found.add(draw.rng.choice(pool))
        return sorted(found)


def _digits(template: Template, draw: _Draw) -> int:
    """The decimals of an answer: those of the template, or of the fact."""
    if template.unit in ("days", "count"):
        return 0
    if template.digits is not None:
        return template.digits
    return 3 if draw.kind == "etf" and draw.fact == "close" else _DIGITS[draw.fact]


def _figures(template: Template, value: Any, digits: int, number: int) -> dict[str, Any]:
    """The fields of an answer that follow from its value; `number` is that of the options."""
    unit = template.unit if template.unit in ("%", "pp", "millions") else ""
    match template.kind:
        case "truth":
            return {"value": value, "chance": 0.5}
        case "name" | "choice":
            return {"value": value, "chance": 1 / number}
        case "list":
            if not 0 < len(value) < number:
                raise Ambiguous("all or none are above")
            chance = max(1 / (2**number - 2), template.least_chance)
            return {"value": tuple(value), "chance": chance}
        case "ranking":
            chance = max(1 / factorial(number), template.least_chance)
            return {"value": tuple(value), "chance": chance}
        case "table":
            rounded = {key: round(figure, digits) for key, figure in value.items()}
            return {"value": rounded, "tolerance": 10.0**-digits, "unit": unit}
        case "date":
            return {"value": str(value)}
    tolerance = max(10.0**-digits, 1e-6 * abs(value)) if digits else 1e-6 * abs(value)
    if template.unit in ("days", "count"):
        tolerance = 0.0
    return {"value": float(round(value, digits)), "tolerance": tolerance, "unit": unit}


def line(task: dict[str, Any]) -> bytes:
    """A task as a line of a file."""
    answer = task["answer"].model_dump(exclude_defaults=True)
    return orjson.dumps({**task, "answer": answer}, option=orjson.OPT_APPEND_NEWLINE)


@lru_cache(256)
def _views_of(fact: str, kind: str) -> tuple[View, ...]:
    kinds = {kind, "csi", "cni"} if kind == "index" else {kind}
    return tuple(v for v in views().values() if fact in v.facts and kinds & {*v.subjects})


@lru_cache(64)
def _of_kind(kind: str) -> tuple[Subject, ...]:
    return tuple(one for one in subjects().values() if one.kind == kind)


_LISTING: Final[Mapping[str, tuple[str, str]]] = {
    "share": ("{name}（A股）", "{name} (A shares)"),
    "hong_kong": ("{name}（港股）", "{name} (Hong Kong)"),
}
"""How a company is named without a code: many are listed on both exchanges."""


def _aliases(subject: Subject) -> tuple[str, ...]:
    """The texts by which a subject may be named."""
    plain = subject.names["en"].removeprefix("the ")
    own = subject.names["zh"]
    names = zip(_LISTING.get(subject.kind, ()), (own, plain), strict=False)
    listed = (form.format(name=name) for form, name in names)
    found = (own, plain, subject.code, *subject.aliases, subject.key.replace(":", ""), *listed)
    return tuple(dict.fromkeys(found))


def _name(subject: Subject, draw: _Draw) -> str:
    """A subject as a question names it: with its code, or from difficulty 3 on by one of both. Two
    funds of one index have one name, so a fund always has its code.
    """
    name, code = subject.names[draw.language], subject.code
    if subject.kind not in ("share", "hong_kong", "states", "index", "etf") or name == code:
        return name
    if subject.kind == "index" and draw.difficulty < 4:
        return name
    if draw.difficulty < 3 or subject.kind == "etf":
        return f"{name}（{code}）" if draw.language == "zh" else f"{name} ({code})"
    is_alone = sum(one.code == code for one in subjects().values()) == 1
    if draw.rng.random() <= 0.7 or not is_alone:
        forms = _LISTING.get(subject.kind)
        return forms[draw.place].format(name=name) if forms else name
    if subject.kind == "index":  # whose code may also be a share's
        return f"指数{code}" if draw.language == "zh" else f"index {code}"
    return code


def _joined(names: Sequence[str], language: str) -> str:
    if language == "zh":
        return "、".join(names[:-1]) + "和" + names[-1]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _after(first: date, months: int) -> date:
    place = first.year * 12 + first.month - 1 + months
    return date(place // 12, place % 12 + 1, 1)


def _day_words(day: date, language: str) -> str:
    if language == "zh":
        return f"{day.year}年{day.month}月{day.day}日"
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _range_words(first: date, last: date, draw: _Draw) -> str:
    """A range of days in words: a month or a quarter by its name where it is one."""
    next_day, is_zh = last + timedelta(1), draw.language == "zh"
    if first.day == next_day.day == 1:
        months = (next_day.year - first.year) * 12 + next_day.month - first.month
        if months == 1:
            name = f"{_MONTHS[first.month - 1]} {first.year}"
            return f"{first.year}年{first.month}月" if is_zh else f"in {name}"
        if months == 3 and first.month % 3 == 1:
            place = first.month // 3
            zh, en = "一二三四"[place], ("first", "second", "third", "fourth")[place]
            return f"{first.year}年第{zh}季度" if is_zh else f"in the {en} quarter of {first.year}"
    if is_zh:
        end = _day_words(last, "zh")
        if last.year == first.year:
            end = end.removeprefix(f"{last.year}年")
        return f"{_day_words(first, 'zh')}至{end}期间"
    return f"between {_day_words(first, 'en')} and {_day_words(last, 'en')}"


def _year_words(first: date, last: date, draw: _Draw) -> str:
    if first.year == last.year:
        said = f"in the fiscal year ended 31 December {last.year}"
        return (f"{last.year}年度（截至12月31日）", said)[draw.place]
    if last.year == first.year + 1:
        said = f"from {first.year} to {last.year} (years ended 31 December)"
        return (f"从{first.year}年度到{last.year}年度（均截至12月31日）", said)[draw.place]
    said = f"in the fiscal years {first.year} to {last.year} (ended 31 December)"
    return (f"{first.year}至{last.year}年度（截至12月31日）", said)[draw.place]


def _with_ending(question: str, form: str, language: str, now: date) -> str:
    """A question with what holds for all answers."""
    day = _day_words(now, language)
    if language == "zh":
        rest = f"今天是{day}。请只依据工具返回的数据作答，价格均不复权，日期区间含首尾两日；"
        rest += "若无法得知，请回答“无法得知”。"
        return f"{question}{form}{rest}最后一行以“答案：”开头。"
    rest = f"Today is {day}. Use only what the tools return; prices are unadjusted, and "
    rest += "ranges include both ends. "
    rest += 'If it cannot be known, say "cannot be known". '
    return f'{question} {form} {rest}End with a line that begins with "Answer:".'


def _between(values: Sequence[float], rng: random.Random) -> float:
    """A bound above some of the sorted values: each subset of them is as likely as any other."""
    number = len(values)
    sizes = range(1, number)
    above = rng.choices(sizes, [comb(number, size) for size in sizes])[0]
    low, high = values[number - above - 1], values[number - above]
    return low + (high - low) * rng.uniform(0.3, 0.7)


def _rounded(value: float, digits: int) -> float:
    """A number of so many significant digits."""
    if value == 0:
        return 0.0
    return round(value, digits - 1 - floor(log10(abs(value))))
