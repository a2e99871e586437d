"""Checks of values: missing ones, ones that can't be, other units, other distributions, other
categories, values of other things, a past that was rewritten.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import exp, log, log10
from statistics import median
from typing import Any, Final

from bench.drift.finding import Level
from bench.drift.snapshots.alignment import is_identity
from bench.drift.snapshots.drawings import counts, histogram, series
from bench.drift.snapshots.pool import FieldPool
from bench.drift.snapshots.records import (
    is_null,
    last_name,
    number,
    number_pairs,
    numbers,
    said,
    shown,
    spaced,
)
from bench.drift.snapshots.report import Report, cut
from bench.drift.snapshots.statistics import (
    fisher,
    is_even,
    kolmogorov_smirnov,
    psi,
    psi_by_chance,
    quantile,
    rank_correlation,
)
from bench.drift.snapshots.time_checks import day
from cache.dates import date_of, is_time_name

PSI_MODERATE: Final = 0.1
PSI_LARGE: Final = 0.2

_CHANCE: Final = 1e-3
_NULLS_MORE: Final = 0.1
_LEAST_EMPTY: Final = 5
"""Values from which a field without any is an error; of fewer, all may be missing by chance."""

_LEAST: Final = 20
"""Values on each side below which no distribution is compared."""

_SAMPLE: Final = 10_000
"""Values of a long field that are enough to tell its unit and its distribution."""

_CLOSE, _NEAR = 0.15, 0.3
"""How far from a power of ten, in decades, the middle of all factors may be, and most of them."""

_ALL_BEYOND, _LEAST_TURNED = 1.3, 3
"""Values that change their sign are in another unit if so many or more, and all, moved so far."""

_MOVED: Final = log(1.25)
_FAR, _WIDER = 3.0, 2.0
"""How far values of both signs may move together, in ranges between their quartiles, and how much
wider or narrower that range may be: a market that falls by 3 %, or a day of more movement.
"""

_MOST_CATEGORIES: Final = 30
_LEAST_SHARE: Final = 0.05

_PRICE = re.compile(
    r"(?i)(?:^|[_. ])(?:price|open|high|low|close|last|nav)$"
    r"|(?-i:[a-z](?:Price|Open|High|Low|Close|Last|Nav))$"
    r"|(?<![溢差折])价$|(?:价格|净值|收盘|开盘|今开|昨收|最高|最低)$"
)
_UNIT = re.compile(
    r"(?i)(?<!crypto)currency(?:[_ ]?(?:code|name|symbol))?$|(?:^|[_. ])(?:units?|ccy|base)$"
    r"|货币$|币种$|(?:^|货币|计价|报价|计量)单位$"
)
_INSTRUMENT = re.compile(
    r"(?i)(?:^|[_. ])(?:isin|cusip|symbol|ticker|code)$|(?-i:[a-z](?:Code|Symbol|Ticker))$|代码$"
)

_PLACEHOLDERS: Final = frozenset(
    [0.0, -1.0, *(sign * (10.0**digits - 1) for sign in (1, -1) for digits in range(3, 10))]
)
"""Numbers that upstreams write where a value is missing: 0, -1, and nines such as -999."""

_MOST_KNOWN: Final = 0.1
_CHANCE_INVALID, _CHANCE_OF_PRICES = 0.01, 0.05
"""How well chance may explain that values, or prices, are invalid, which prices seldom are."""

_PLAIN: Final = (int, float, str)

_short = partial(cut, longest=40)

_LEAST_PERMUTED, _LEAST_SHUFFLED = 7, 0.1
_SAME_SET: Final = 0.9
"""Values of a permuted column that were there before; the others came with new records."""

_UNRELATED: Final = 0.3
"""Rank correlation under which values before and after have nothing to do with each other."""


def check_nulls(field: FieldPool, report: Report) -> bool:
    """Whether more values are missing, by Fisher's test and by at least a tenth of all. Returns
    whether no value is left.
    """
    before, after = _known(field)
    if not before or not after:
        return False
    old, new = sum(map(is_null, before)), sum(map(is_null, after))
    a, b = old / len(before), new / len(after)
    level: Level | None = None
    if b == 1 and a < 0.5:
        level = "ERR" if len(after) >= _LEAST_EMPTY else "WARN"
    elif b - a >= _NULLS_MORE and fisher(old, len(before), new, len(after)) < _CHANCE:
        level = "WARN"
    elif a - b >= _NULLS_MORE and fisher(new, len(after), old, len(before)) < _CHANCE:
        level = "INFO"
    if level is not None:
        text = f"{said(field.path)}: {a:.0%} of the values were missing, {b:.0%} are"
        report.add("null_share", field.path, round(a, 4), round(b, 4), text, level=level)
    return a == 1 or b == 1


def check_unit(field: FieldPool, report: Report) -> bool:
    """Whether the field names another unit or currency, or all values are multiplied by one power
    of ten, from a hundred on: values that belong together, or the quantiles of those that do not. A
    factor of ten may be a split of shares, which is `restated`.
    """
    if _check_unit_named(field, report):
        return True
    power = _power_of_pairs(field.pairs)
    if power is None and not field.dated:
        power = _power_apart(field.before, field.after, least=_LEAST)
    if power is None and field.dated:
        power = _power_apart(field.before[-len(field.newer) * 4 :], field.newer, least=5)
    if power is None:
        return False
    few = len(field.pairs or field.after) < 3
    before, after = _typical(field.before), _typical(field.after)
    factor = f"{10**power:,}" if power > 0 else f"1/{10**-power:,}"
    text = f"{said(field.path)}: values are multiplied by {factor}, as by another unit"
    report.add(
        *("unit_changed", field.path, before, after, text),
        level="WARN" if few else None,
        evidence=_evidence(field),
    )
    return True


def check_identity(field: FieldPool, report: Report) -> bool:
    """Whether an answer of one record is about another instrument."""
    others = _other_texts(field) if field.is_single and _is_named(_INSTRUMENT, field) else []
    for a, b in others[:1]:
        text = f"{said(field.path)} was {_short(a)} and is {_short(b)}"
        report.add("identity_changed", field.path, a, b, text)
    return bool(others)


def check_invalid(field: FieldPool, report: Report) -> bool:
    """Whether 0, -1 or nines, or prices of 0 or less, stand where other values were: in at least a
    tenth more of a column, by Fisher's test, or in an answer of one record.
    """
    is_price = _is_named(_PRICE, field)

    def is_invalid(cell: Any) -> bool:
        value = number(cell)
        return value is not None and (value in _PLACEHOLDERS or (is_price and value <= 0))

    if field.is_single:
        known = [(a, b) for a, b in field.pairs if is_price and is_invalid(b)]
        lost = [(a, b) for a, b in known if (number(a) or 0) > 0 >= (number(b) or 0)]
        for a, b in lost[:1]:
            text = f"{said(field.path)} was {a} and is {b}"
            report.add("invalid", field.path, _jsonable(a), _jsonable(b), text)
        return bool(lost)
    for before, after in (_known(field), (field.before, field.newer)):
        new = sum(map(is_invalid, after))
        if not before or not after or new < _NULLS_MORE * len(after):
            continue
        old = sum(map(is_invalid, before))
        a, b = old / len(before), new / len(after)
        if a > _MOST_KNOWN or b - a < _NULLS_MORE:
            continue
        chance = fisher(old, len(before), new, len(after))
        if chance < (_CHANCE_OF_PRICES if is_price else _CHANCE_INVALID):
            value = next(cell for cell in after if is_invalid(cell))
            text = f"{said(field.path)}: {b:.0%} of the values are such as {value}, {a:.0%} were"
            report.add(
                *("invalid", field.path, round(a, 4), round(b, 4), text),
                evidence=_evidence(field),
            )
            return True
    return False


def check_permuted(field: FieldPool, report: Report) -> bool:
    """Whether values belong to other things than before: those that changed are the same set, or
    they are prices that moved far and without regard to what they were, and yet are distributed as
    before. Ranks, dates, and records that are known by their place in the list may change places.
    """
    if field.dated or field.counted or is_identity(field.name):
        return False
    known = [(a, b) for a, b in field.pairs if not is_null(a) and not is_null(b)]
    others = [(a, b) for a, b in known if type(a) in _PLAIN and type(b) in _PLAIN and a != b]
    if len(others) < _LEAST_PERMUTED:
        return False
    old, new = (Counter(pair[side] for pair in others) for side in (0, 1))
    if (old & new).total() < _SAME_SET * len(others):
        others = _shuffled(known) if _is_named(_PRICE, field) else []
    if not others or _changes_places([a for a, _ in known], field):
        return False
    a, b = others[0]
    text = f"{said(field.path)}: {len(others)} of {len(known)} values belong to other records"
    text += f", first {_short(repr(a))} to {_short(repr(b))}"
    report.add("permuted", field.path, a, b, text)
    return True


def check_categories(field: FieldPool, report: Report) -> bool:
    """Whether a field of few different texts has other ones."""
    before, after = _texts(field.before), _texts(field.after)
    if before is None or after is None or all(date_of(text, named=False) for text in before):
        return False
    first, second = sum(before.values()), sum(after.values())

    def beyond_chance(count: int, of: int, others: int) -> bool:
        share = count / of
        return share >= _LEAST_SHARE and (1 - share) ** others < _CHANCE

    gone = [t for t in before if t not in after and beyond_chance(before[t], first, second)]
    new = [t for t in after if t not in before and beyond_chance(after[t], second, first)]
    if not gone and not new:
        return False
    parts = [f"gone: {', '.join(map(_short, gone[:5]))}"] if gone else []
    parts += [f"new: {', '.join(map(_short, new[:5]))}"] if new else []
    report.add(
        *("categories", field.path, [*before][:20], [*after][:20]),
        f"{said(field.path)} has other values; {'; '.join(parts)}",
        level=None if gone else "INFO",
        evidence=counts(before, after),
    )
    return True


def check_restated(field: FieldPool, report: Report) -> bool:
    """Whether values of dates before the newest one are other than they were."""
    compared, changed = 0, []
    for place, (a, b) in enumerate(field.past):
        if a == b or is_null(a) or is_null(b):
            compared += a == b and not is_null(a)
            continue
        compared += 1
        if not _is_same(a, b):
            changed.append(place)
    if not changed:
        return False
    share = len(changed) / compared
    a, b = field.past[changed[0]]
    since = f", first {_short(repr(a))} to {_short(repr(b))} of {day(field.past_dates[changed[0]])}"
    report.add(
        *("restated", field.path, _jsonable(a), _jsonable(b)),
        f"{said(field.path)}: {len(changed)} of {compared} values of past dates changed{since}",
        level="INFO" if share < 0.01 else None,
        evidence=_evidence(field, changed[0]),
    )
    return True


def check_distribution(field: FieldPool, report: Report) -> None:
    """Whether numbers are distributed otherwise, beyond a movement that they have in common."""
    if field.dated or is_identity(field.name):
        return  # a past that stays is compared value by value, and what is new may have new values
    before, after = (numbers(spaced(cells, _SAMPLE)) for cells in (field.before, field.after))
    if min(len(before), len(after)) < _LEAST or len({*before}) < 5:
        return
    if _moved_together(field.pairs):
        report.chances.append(1.0)
        return
    still = _without_movement(before, after)
    distance, chance = kolmogorov_smirnov(before, still)
    report.chances.append(chance)
    index = psi(before, still)
    if chance > 0.05 or index - psi_by_chance(len(before), len(still)) < PSI_MODERATE:
        return
    figures = f"PSI {index:.2f}, Kolmogorov-Smirnov {distance:.2f}"
    report.add(
        *("distribution", field.path, _typical(field.before), _typical(field.after)),
        f"{said(field.path)}: another distribution ({figures})",
        level="INFO" if index < PSI_LARGE else None,
        evidence=histogram(before, after),
        chance=chance,
    )


def _known(field: FieldPool) -> tuple[Sequence[Any], Sequence[Any]]:
    """The cells before and after: of a history, those of its past."""
    if field.dated and field.past:
        return [a for a, _ in field.past], [b for _, b in field.past]
    return field.before, field.after


def _is_named(pattern: re.Pattern[str], field: FieldPool) -> bool:
    return pattern.search(shown(last_name(field.name))) is not None


def _other_texts(field: FieldPool) -> list[tuple[str, str]]:
    """The texts of records that belong together and differ by more than their case."""
    texts = [(a, b) for a, b in field.pairs if type(a) is type(b) is str]
    return [
        (a, b)
        for a, b in texts
        if a.casefold() != b.casefold() and not is_null(a) and not is_null(b)
    ]


def _check_unit_named(field: FieldPool, report: Report) -> bool:
    if field.dated or field.counted or not _is_named(_UNIT, field):
        return False
    others = _other_texts(field)
    if not others or len(others) < _NULLS_MORE * len(field.pairs):
        return False
    a, b = others[0]
    level: Level | None = "WARN" if len(others) < len(field.pairs) / 2 else None
    text = f"{said(field.path)} was {_short(a)} and is {_short(b)}"
    report.add("unit_changed", field.path, a, b, text, level=level)
    return True


def _changes_places(cells: Sequence[Any], field: FieldPool) -> bool:
    """Whether values may belong to other things from day to day: ranks, dates, a few words."""
    different, named = {*map(str, cells)}, is_time_name(shown(last_name(field.name)))
    if len(different) < len(cells) / 2 or all(date_of(text, named=named) for text in different):
        return True
    values = numbers(different)
    is_rank = is_even(values) and min(values) <= max(values) / 10
    return is_rank and not _is_named(_PRICE, field)


def _shuffled(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[float, float]]:
    """The positive values that moved far from the movement of all, if there are many, they do not
    keep their order, and they are distributed as before.
    """
    values = [(x, y) for x, y in number_pairs(pairs) if x > 0 < y]
    if not values or len(values) < _SAME_SET * len(pairs):
        return []
    moves, centre = _moves(values)
    far = [value for value, move in zip(values, moves, strict=True) if abs(move - centre) > _MOVED]
    if len(far) < max(_LEAST_PERMUTED, _LEAST_SHUFFLED * len(pairs)):
        return []
    before, after = (sorted(side) for side in zip(*far, strict=True))
    _, chance = kolmogorov_smirnov(before, _without_movement(before, after))
    return far if chance > 0.5 and rank_correlation(far) < _UNRELATED else []


def _power_of_pairs(pairs: Sequence[tuple[Any, Any]]) -> int | None:
    values = [(x, y) for x, y in number_pairs(spaced(pairs, _SAMPLE)) if x and y]
    if not values:
        return None
    shifts = [_decades(x, y) for x, y in values]
    power = round(centre := median(shifts))
    if any(
        (x > 0) != (y > 0) for x, y in values
    ):  # changes of a day, say: only all of them together say something
        is_shift = min(shifts) >= _ALL_BEYOND or max(shifts) <= -_ALL_BEYOND
        return power if len(shifts) >= _LEAST_TURNED and is_shift and abs(power) >= 2 else None
    near = sum(abs(shift - power) <= _NEAR for shift in shifts) / len(shifts)
    return power if abs(power) >= 2 and abs(centre - power) <= _CLOSE and near >= 0.8 else None


def _power_apart(before: Sequence[Any], after: Sequence[Any], least: int) -> int | None:
    """By how much the quantiles are multiplied; of values of both signs, the ranges between."""
    first, second = ([x for x in numbers(spaced(s, _SAMPLE)) if x] for s in (before, after))
    if min(len(first), len(second)) < least:
        return None
    if first[0] < 0 < first[-1]:
        shifts = [
            _decades(a, b)
            for a, b in zip(_ranges(first), _ranges(second), strict=True)
            if a > 0 and b > 0
        ]
    else:
        sizes = [sorted(map(abs, side)) for side in (first, second)]
        places = (0.1, 0.25, 0.5, 0.75, 0.9)
        shifts = [_decades(*(quantile(side, p) for side in sizes)) for p in places]
    if len(shifts) < 2:
        return None
    power = round(centre := median(shifts))
    spread = max(abs(shift - centre) for shift in shifts)
    is_shift = abs(centre - power) <= _NEAR and spread <= 1.5 * _NEAR
    return power if abs(power) >= 2 and is_shift else None


def _ranges(values: Sequence[float]) -> list[float]:
    return [quantile(values, 1 - p) - quantile(values, p) for p in (0.1, 0.25)]


def _decades(x: float, y: float) -> float:
    """The decadic logarithm of the factor from `x` to `y`, also where no float holds the factor."""
    return log10(abs(y)) - log10(abs(x))


def _moves(values: Sequence[tuple[float, float]]) -> tuple[list[float], float]:
    """The natural logarithms of the factors by which values moved, and the middle one."""
    moves = [_decades(x, y) * log(10) for x, y in values]
    return moves, median(moves)


def _moved_together(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Whether things that are in both answers kept their order and moved by a few percent."""
    pairs = spaced(pairs, _SAMPLE)
    values = [(x, y) for x, y in number_pairs(pairs) if x and y and (x > 0) == (y > 0)]
    if len(values) < 5 or len(values) < len(pairs) / 2:
        return False
    moves, centre = _moves(values)
    spread = median([abs(move - centre) for move in moves])
    return abs(centre) <= _MOVED and spread <= 0.1 and rank_correlation(values) >= 0.8


def _without_movement(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """The sorted values after, without what moved them all: a factor of positive ones; of others,
    such as the changes of a day, a sum and how far they spread. A large movement is none.
    """
    old, new = median(before), median(after)
    if before[0] > 0 and after[0] > 0:
        move = _decades(old, new) * log(10)
        return [x / exp(move) for x in after] if abs(move) <= _MOVED else list(after)
    spread, later = _ranges(before)[1], _ranges(after)[1]
    if not (spread > 0 < later and abs(new - old) <= _FAR * spread):
        return list(after)
    factor = later / spread
    if not 1 / _WIDER <= factor <= _WIDER:
        factor = 1.0
    return [old + (x - new) / factor for x in after]


def _texts(cells: Sequence[Any]) -> Counter[str] | None:
    """How often each text stands, if there are few different ones."""
    found = Counter(cell for cell in cells if type(cell) is str and not is_null(cell))
    total = found.total()
    if total < _LEAST or len(found) > min(_MOST_CATEGORIES, total / 3):
        return None
    return found


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values differ at most by rounding."""
    x, y = number(a), number(b)
    if x is None or y is None:
        return bool(a == b)
    digits = min(_decimals(a), _decimals(b))
    return abs(x - y) <= max(abs(x) * 1e-9, 0.500001 * 10.0**-digits if digits < 12 else 0.0)


def _decimals(value: Any) -> int:
    text = str(value)
    return len(text.partition(".")[2]) if "." in text and "e" not in text else 99


def _typical(cells: Sequence[Any]) -> float | None:
    values = numbers(cells)
    return float(f"{median(values):.6g}") if values else None


def _evidence(field: FieldPool, place: int = 0) -> Mapping[str, Any] | None:
    if field.past_dates:
        return series(*field.past_around(place))
    before, after = numbers(field.before), numbers(field.after)
    return histogram(before, after) if before and after else None


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)
