"""Stand-ins: another source that gives the same facts as a tool whose own source fails.

A stand-in is declared in the manifest of the tool that it stands in for. Here its call is made from
the arguments of the asked call, and its rows become rows of the asked tool. What can't be mapped
exactly raises `UnfitError`, so it is never guessed. Prices that are adjusted, and figures whose
units, currency or days differ, are refused by `problems` before anything is called.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from manifests.formats import FORMATS
from manifests.manifest import EXACT, Filling, Given, Manifest, Scalar, StandIn, Unit

Row = Mapping[str, Any]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS: Final = 12
"""Significant digits of a converted figure: all that a source gives, and no noise of a division."""

_MONEY: Final = frozenset[Unit](["price", "money"])


class UnfitError(ValueError):
    """This call, or this answer, can't be mapped; the text says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A tool, one of its stand-ins, and the tool that stands in."""

    asked: Manifest
    stand_in: StandIn
    other: Manifest

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns of the asked tool that the stand-in can't give; they are null."""
        return tuple(c for c in _columns(self.asked) if c not in self.stand_in.columns)

    @property
    def within(self) -> dict[str, float]:
        """By how much figures may differ through rounding, by column."""
        given = self.stand_in.columns.items()
        return {name: column.within for name, column in given if column.within}

    def arguments(self, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The arguments of the stand-in's call, for canonical arguments of the asked tool. Raises
        `UnfitError`.
        """
        for name, pattern in self.stand_in.when.items():
            given = _text(asked.get(name))
            if not re.fullmatch(pattern, given):
                raise UnfitError(f"it does not stand in where {name} is {given[:60]!r}")
        filled = {
            name: _filled(name, filling, asked) for name, filling in self.stand_in.arguments.items()
        }
        return {name: value for name, value in filled.items() if value is not None}

    def rows(
        self, rows: Sequence[Row], asked: Mapping[str, Scalar], sent: Mapping[str, Scalar]
    ) -> list[dict[str, Any]]:
        """The rows of the stand-in's answer as rows of the asked tool. `asked` and `sent` are the
        canonical arguments of the two calls. Raises `UnfitError`.
        """
        made, days, last = list[dict[str, Any]](), self.stand_in.days, ""
        first, final = "", "99999999"
        if days is not None:
            first, final = _compact(asked.get(days.first)), _compact(asked.get(days.last)) or final
        for row in rows:
            self._check_same(row, sent)
            mapped = {name: self._cell(name, row, asked) for name in _columns(self.asked)}
            if days is not None:
                day = _day(row.get(days.column)).replace("-", "")
                if day <= last:
                    raise UnfitError("its days do not rise from row to row")
                last = day
                if not first <= day <= final:
                    continue
            made.append(mapped)
        if not made:
            raise UnfitError("it has no row of what was asked for")
        return made

    def _cell(self, name: str, row: Row, asked: Mapping[str, Scalar]) -> Any:
        given = self.stand_in.columns.get(name)
        if given is None:
            return None
        if given.of is None:
            return asked.get(given.argument or "")
        if given.of not in row:
            raise UnfitError(f"it has no column {given.of}")
        theirs, ours = _unit(self.other, given.of), _unit(self.asked, name)
        value = row[given.of]
        if ours == "day":
            return _day(value)
        if ours == "text" or value is None:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnfitError(f"its column {given.of} holds no number")
        if ours == theirs:
            return value
        by, over = EXACT[theirs, ours]  # `problems` says that there is one
        if over == 1:
            return value * by
        return float(f"{value * by / over:.{_DIGITS}g}")

    def _check_same(self, row: Row, sent: Mapping[str, Scalar]) -> None:
        for column, parameter in self.stand_in.same.items():
            if _text(row.get(column)) != _text(sent.get(parameter)):
                found = _text(row.get(column))
                raise UnfitError(f"it answered about {found[:60]!r}, another instrument")


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell, or with the column of days a whole row, that only one source has or that differs."""

    day: str
    column: str
    asked: Any
    answered: Any


def differences(
    pair: Pair, own: Sequence[Row], mapped: Sequence[Row]
) -> tuple[int, list[Difference]]:
    """How many cells of the tool's own rows and of those mapped from a stand-in (`Pair.rows`) were
    compared, and which differ by more than is declared. Days count that both cover. Raises
    `UnfitError`.
    """
    units = pair.asked.measured.units if pair.asked.measured else {}
    column = next((name for name, unit in units.items() if unit == "day"), "")
    ours, theirs = ({_day(row.get(column)): row for row in rows} for rows in (own, mapped))
    if not ours or not theirs:
        return 0, []
    first, last = max(min(ours), min(theirs)), min(max(ours), max(theirs))
    compared, found = 0, list[Difference]()
    for day in sorted(day for day in ours.keys() | theirs.keys() if first <= day <= last):
        if day not in ours or day not in theirs:
            told = (day if day in side else None for side in (ours, theirs))
            found.append(Difference(day, column, *told))
            continue
        for name, given in pair.stand_in.columns.items():
            if name == column or given.of is None:
                continue
            compared += 1
            one, other = ours[day].get(name), theirs[day].get(name)
            if not _agree(one, other, given.within):
                found.append(Difference(day, name, one, other))
    return compared, found


def _agree(one: object, other: object, within: float) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= within + 1e-9 * max(abs(one), 1.0)
    return one == other


def pairs(asked: Manifest, catalog: Mapping[str, Manifest]) -> list[Pair]:
    """The declared stand-ins of a tool whose own tools are in the catalogue, in their order."""
    return [
        Pair(asked, stand_in, other)
        for stand_in in asked.stand_ins
        if (other := catalog.get(stand_in.tool)) is not None
    ]


def problems(pair: Pair) -> Iterator[str]:
    """Why figures of the two tools are not the same facts, and what of the declaration is wrong."""
    asked, stand_in, other = pair.asked, pair.stand_in, pair.other
    if asked.measured is None or other.measured is None:
        yield f"{(other if asked.measured else asked).name} does not say what it measures"
        return
    if asked.is_for_one or other.is_for_one:
        yield "answers for one caller alone have no stand-in"
    if asked.measured.zone != other.measured.zone:
        yield f"days of {asked.measured.zone} are not those of {other.measured.zone}"
    yield from _adjusted(pair)
    for name, given in stand_in.columns.items():
        if given.of is not None:
            yield from _compared(pair, name, given)
    ours = {p.name for p in asked.parameters}
    mapped = {filling.of for filling in stand_in.arguments.values() if filling.of}
    if stand_in.days is not None:
        mapped |= {stand_in.days.first, stand_in.days.last}
    shown = {given.argument for given in stand_in.columns.values() if given.argument}
    for name in sorted((mapped | shown | stand_in.when.keys()) - ours):
        yield f"{asked.name} has no parameter {name}"
    asks = {p.name for p in asked.parameters if p.filled_by == "agent" and p.withdrawn is None}
    fixed = {name for name, pattern in stand_in.when.items() if re.escape(pattern) == pattern}
    for name in sorted(asks - mapped - fixed):
        yield f"parameter {name} would be dropped: map it, or say in when which value it has"
    theirs = {p.name: p for p in other.parameters if p.filled_by == "agent"}
    for name in sorted(stand_in.arguments.keys() - theirs.keys()):
        yield f"{other.name} has no parameter {name}"
    for name, parameter in theirs.items():
        if parameter.required and name not in stand_in.arguments:
            yield f"parameter {name} of {other.name} has no value"
    told = [stand_in.days.column] if stand_in.days else []
    for name in (*told, *stand_in.same):
        if name not in other.measured.units:
            yield f"{other.name} does not say what {name} is"


def _adjusted(pair: Pair) -> Iterator[str]:
    """Only prices as they were paid are the same in two sources: each adjusts in its own way."""
    stand_in = pair.stand_in
    ours, theirs = (
        m.measured.adjusted_by if m.measured else None for m in (pair.asked, pair.other)
    )
    if ours is not None and stand_in.when.get(ours) != "":
        yield f"prices are adjusted by {ours}: a stand-in needs the condition that it is empty"
    if theirs is not None:
        filling = stand_in.arguments.get(theirs)
        if filling is None or filling.value != "":
            yield f"prices of {pair.other.name} are adjusted by {theirs}: it must be empty"


def _compared(pair: Pair, name: str, given: Given) -> Iterator[str]:
    asked, other = pair.asked.measured, pair.other.measured
    ours = asked.units.get(name) if asked else None
    theirs = other.units.get(given.of or "") if other else None
    if ours is None or theirs is None:
        yield f"the unit of {name} or of {given.of} is not declared"
    elif ours != theirs and (theirs, ours) not in EXACT:
        yield f"{name} is in {ours}, {given.of} in {theirs}"
    elif ours in _MONEY and asked and other and asked.currency != other.currency:
        yield f"{name} is in {asked.currency}, {given.of} in {other.currency}"
    elif ours in _MONEY and asked and asked.currency is None:
        yield f"the currency of {name} is not declared"


def _filled(name: str, filling: Filling, asked: Mapping[str, Scalar]) -> Scalar | None:
    """The value of one argument; None for an argument that the call leaves out."""
    if filling.of is None:
        return filling.value
    value = asked.get(filling.of)
    if value is None:
        return None
    text = _text(value)
    if filling.part is not None:
        found = re.fullmatch(filling.part, text)
        if found is None:
            raise UnfitError(f"{filling.of} {text[:60]!r} has no {name} there")
        text = found[1]
    if filling.values is not None:
        if text not in filling.values:
            raise UnfitError(f"{filling.of} {text[:60]!r} has no {name} there")
        return filling.values[text]
    if filling.form is not None:
        text = filling.form.replace("{}", text)
    if filling.format is not None:
        try:
            text = FORMATS[filling.format].writer(name, "")(text)
        except ValueError as error:
            raise UnfitError(f"{filling.of}: {error}") from None
    return value if text == value else text


def _columns(manifest: Manifest) -> tuple[str, ...]:
    """The columns of a tool's answers: those declared, or those of which a unit is known."""
    if manifest.columns:
        return tuple(column.name for column in manifest.columns)
    return tuple(manifest.measured.units) if manifest.measured else ()


def _unit(manifest: Manifest, column: str) -> Unit | None:
    return manifest.measured.units.get(column) if manifest.measured else None


def _day(value: object) -> str:
    text = value[:10] if isinstance(value, str) else ""
    if not _DAY.fullmatch(text):
        raise UnfitError(f"{str(value)[:30]!r} is no day")
    return text


def _compact(value: object) -> str:
    return re.sub(r"\D", "", _text(value))[:8]


def _text(value: object) -> str:
    return "" if value is None else str(value)
