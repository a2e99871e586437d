"""Pairs of parameters that bound a range, and the check that its end is not before its start.

Names and formats identify a pair (`start_date` and `end_date`). Where there is no format, the
examples of both parameters must be comparable. Values that can't be compared are accepted: the
upstream knows what they mean.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from manifests.formats import DATE_FORMATS
from manifests.manifest import Parameter, Scalar

_BOUNDS = (
    *(("start", "end"), ("begin", "end"), ("from", "to"), ("is_from", "to")),
    *(("since", "until"), ("after", "before"), ("min", "max")),
)

_DATE = re.compile(r"\d{4}(?:\d{2}){0,2}|\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")
_CLOCK = re.compile(r"\d{2}:\d{2}(?::\d{2})?")
_PAGE = re.compile(r"\d{1,9}")
_NO_DIGITS = re.compile(r"\D")


class Range(NamedTuple):
    """The names of the two parameters, and the form of their values."""

    start: str
    end: str
    form: re.Pattern[str]

    def is_reversed(self, bound: Mapping[str, Scalar]) -> bool:
        """Whether the end is before the start, as far as both values say."""
        start, end = bound.get(self.start), bound.get(self.end)
        if isinstance(start, str) and isinstance(end, str):
            if len(start) == len(end) and start <= end:  # both have the same form, as in most calls
                return False
            return self._is_reversed(start, end)
        if isinstance(start, int | float) and isinstance(end, int | float):
            return end < start
        return False

    def _is_reversed(self, start: str, end: str) -> bool:
        if not (self.form.fullmatch(start) and self.form.fullmatch(end)):
            return False
        if self.form is _PAGE:
            return int(end) < int(start)
        start, end = _NO_DIGITS.sub("", start), _NO_DIGITS.sub("", end)
        length = min(len(start), len(end))  # for 2024-05-01 and 2024-05-01 09:30, compare the day
        return end[:length] < start[:length]


def ranges(parameters: Sequence[Parameter]) -> tuple[Range, ...]:
    """The ranges among the parameters of one tool."""
    by_name = {p.name: p for p in parameters}
    pairs = {
        start.name: end
        for start in parameters
        for low, high in _BOUNDS
        if low in start.name and (end := by_name.get(start.name.replace(low, high, 1))) is not None
    }
    found = ((name, end.name, _form_of(by_name[name], end)) for name, end in pairs.items())
    return tuple(Range(start, end, form) for start, end, form in found if form is not None)


def _form_of(start: Parameter, end: Parameter) -> re.Pattern[str] | None:
    """The form of both values; None if values can't be compared."""
    if start.format in DATE_FORMATS and end.format in DATE_FORMATS:
        return _DATE
    if start.format is None and end.format is None:
        examples = str(start.example), str(end.example)
        for form in (_PAGE,) if "page" in start.name else (_DATE, _CLOCK):
            if all(map(form.fullmatch, examples)):
                return form
    return None
