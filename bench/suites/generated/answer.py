"""Right answers of generated tasks: how they are written, and whether a text states one.

A text states its answer after its last "Answer:" or 答案：, else in its last line. It is right if
it states one answer alone, of the kind that was asked for, within the tolerance.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from math import isfinite
from typing import Literal, Self

from pydantic import Field, model_validator

from bench.suites.quantity import Quantity, quantities
from bench.task import TaskModel

Kind = Literal["number", "date", "name", "list", "ranking", "table", "truth", "unknown"]

READ = 4_000
"""At most so many characters of an answer are read, from its end."""


class Answer(TaskModel):
    """The right answer of a task.

    `value` is a number, a day, the key of a subject, a list of keys, a mapping of keys to numbers,
    or a truth; nothing if it is unknown. `options` are the texts by which each subject may be
    named, by its key. `steps` are the values that lead to the answer, as tools show them. `asked`
    is the kind of answer that the question asks for, and `chance` how often a blind guess is right.
    """

    kind: Kind
    asked: Kind
    value: bool | float | str | tuple[str, ...] | dict[str, float] | None = None
    tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)
    unit: str = ""
    options: dict[str, tuple[str, ...]] = Field({})
    steps: tuple[float | str, ...] = ()
    chance: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _names_its_options(self) -> Self:
        """Raises `ValueError` for a value that is not of its kind."""
        kinds: Mapping[str, type | tuple[type, ...]] = {
            "number": float, "date": str, "name": str, "truth": bool, "list": tuple,
            "ranking": tuple, "table": dict, "unknown": type(None),
        }  # fmt: skip
        if not isinstance(self.value, kinds[self.kind]):
            raise ValueError(f"the value of a {self.kind} is {str(self.value)[:100]!r}")
        figures = self.value.values() if isinstance(self.value, dict) else (self.value,)
        if not all(isfinite(one) for one in figures if isinstance(one, float)):
            raise ValueError("the value is no finite number")
        keys = {self.value} if self.kind == "name" else self.value
        if isinstance(keys, set | tuple | dict) and (unnamed := {*keys} - self.options.keys()):
            raise ValueError(f"there is no option {sorted(map(str, unnamed))[0]!r}")
        return self

    @property
    def text(self) -> str:
        """The answer as an agent may state it."""
        first = {key: names[0] for key, names in self.options.items()}
        match self.value:
            case None:
                return "cannot be known"
            case bool():
                return "yes" if self.value else "no"
            case str():
                return first.get(self.value, self.value)
            case tuple():
                return ", ".join(first[key] for key in self.value)
            case dict():
                return "; ".join(f"{first[k]}: {self._number(v)}" for k, v in self.value.items())
            case number:
                return self._number(number)

    def _number(self, value: float) -> str:
        return f"{value:.10g} %" if self.unit == "%" else f"{value:.12g}"

    def is_stated(self, text: str) -> bool:
        """Whether a text states this answer."""
        said = stated(text)
        if self.value is None or _UNKNOWN.search(said):
            return self.value is None and _UNKNOWN.fullmatch(said.strip(' .。"“”*')) is not None
        if not isinstance(self.value, bool) and _HEDGED.search(said):
            return False
        match self.value:
            case bool():
                return _truth(said) == self.value
            case str():
                return (_days if self.asked == "date" else self._named)(said) == [self.value]
            case tuple():
                named = self._named(said)
                return (
                    named == list(self.value)
                    if self.asked == "ranking"
                    else (len(named) == len(self.value) and {*named} == {*self.value})
                )
            case dict():
                return self._is_table(said, self.value)
            case number:
                found = quantities(said)
                return len(found) == 1 and self._is(found[0], number)

    def steps_seen(self, texts: Sequence[str]) -> float | None:
        """The share of the steps that stand in texts; None if there are none."""
        if not self.steps:
            return None
        whole = "\n".join(texts)
        return sum(_holds(whole, step) for step in self.steps) / len(self.steps)

    def _is(self, given: Quantity, number: float) -> bool:
        scale = {"%": 100.0, "pp": 100.0, "millions": 1e-6}.get(self.unit, 1.0)
        value = given.written if given.unit is None else given.value * scale
        return abs(value - number) <= self.tolerance * (1 + 1e-9) + 1e-12

    def _named(self, said: str) -> list[str]:
        return [key for key, _, _ in self._places(said)]

    def _places(self, said: str) -> Iterator[tuple[str, int, int]]:
        """The subjects that a text names, once each, with the ends of each place."""
        names = {_plain(name): key for key, all_ in self.options.items() for name in all_}
        each = sorted(names, key=len, reverse=True)
        pattern = "|".join(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])" for name in each)
        seen = set[str]()
        for match in re.finditer(pattern, _plain(said)):
            key = names[match[0]]
            if key not in seen:
                seen.add(key)
                yield key, match.start(), match.end()

    def _is_table(self, said: str, table: Mapping[str, float]) -> bool:
        said = _plain(said)
        places = list(self._places(said))
        if len(places) != len(table):
            return False
        ends = [start for _, start, _ in places[1:]] + [len(said)]
        for (key, _, start), end in zip(places, ends, strict=True):
            codes = "|".join(re.escape(_plain(name)) for name in self.options[key])
            found = quantities(re.sub(codes, " ", said[start:end]))
            if len(found) != 1 or not self._is(found[0], table[key]):
                return False
        return True


def stated(text: str) -> str:
    """The part of a text that states its answer."""
    text = text[-READ:].strip()
    marks = list(_MARK.finditer(text))
    if marks:
        return text[marks[-1].end() :].strip()
    return text.rsplit("\n", 1)[-1]


_MARK = re.compile(r"(?:\banswer\b[\s*]*(?:is\b|:|：)|答案[\s*]*[:：是为])[\s*:：]*", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"(?:(?:it|this|that|the answer) )?can(?:not|'t|’t| not) be (?:known|determined)|\bunknown\b"
    r"|无法(?:得知|知道|确定)|不得而知|无从得知",
    re.IGNORECASE,
)
_YES = re.compile(r"^\W*(?:yes|true|是的?|对)(?![a-z])", re.IGNORECASE)
_HEDGED = re.compile(
    r"\b(?:not|except|or|nor|either|neither|(?:more|less|other) than)\b|[或除]|不是[^\W\d]|要么",
    re.IGNORECASE,
)
"""Words of a text that does not state one answer alone."""

_BOTH = re.compile(r"\byes\b.*\bno\b|\bno\b.*\byes\b|是否|是\W+(?:不是|否)|否\W+是", re.I)
_NO = re.compile(r"^\W*(?:no|false|否|不是?|没有|未)(?![a-z])", re.IGNORECASE)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DAY = re.compile(
    r"(?<!\d)(?P<y>\d{4})\s*[-/.年]\s*(?P<m>\d{1,2})\s*[-/.月]\s*(?P<d>\d{1,2})(?!\d)"
    r"|(?<!\d)(?P<whole>(?:19|20)\d{6})(?!\d)"
    rf"|(?<!\d)(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<m2>{_MONTH}),?\s+(?P<y2>\d{{4}})"
    rf"|(?P<m3>{_MONTH})\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y3>\d{{4}})",
    re.IGNORECASE,
)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).lower())


def _truth(said: str) -> bool | None:
    is_yes, is_no = bool(_YES.search(said)), bool(_NO.search(said))
    return None if is_yes == is_no or _BOTH.search(said) else is_yes


def _days(said: str) -> list[str]:
    """The days that a text names, once each."""
    found = list[str]()
    for match in _DAY.finditer(said):
        if match["whole"]:
            parts = (match["whole"][:4], match["whole"][4:6], match["whole"][6:])
        else:
            parts = next(
                (match[f"y{n}"], match[f"m{n}"], match[f"d{n}"])
                for n in ("", "2", "3")
                if match[f"y{n}"]
            )
        year, month, day = parts
        number = int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1
        try:
            found.append(str(date(int(year), number, int(day))))
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def _holds(text: str, step: float | str) -> bool:
    if isinstance(step, str):
        return step in text or step.replace("-", "") in text
    forms = {f"{step:.10g}", f"{step:.0f}" if step == int(step) else f"{step:.10g}"}
    if step == int(step) and step % 100 == 0:
        forms.add(f"{step / 100:.0f}")  # a volume in lots
    each = "|".join(re.escape(form) for form in forms)
    return (
        re.search(
            rf"(?<![\d.])(?:{each})(?:\.0+|(?<=\.\d)0+|(?<=\.\d\d)0+|(?<=\.\d\d\d)0+)?(?!\d|\.\d)",
            text,
        )
        is not None
    )
