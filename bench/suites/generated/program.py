"""Programs: small typed expressions whose leaves are facts, which tools answer.

A program is a Python expression of the operations in `OPERATIONS`, arithmetic, comparisons, `if`
and dicts. Its leaves are series by day: `close("sh600519", "2024-01-02", "2024-03-28", "TOOL")`,
with the tool that answers it. It is evaluated over any reader of leaves: the world, or the answers
of tools. Nothing of Python but these forms is evaluated.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from math import sqrt
from operator import itemgetter
from statistics import fmean, median, stdev
from typing import Any, Final

Series = list[tuple[date, float]]
Value = Any
"""A number, a day, a name, a truth, a list of names, or a dict of names to numbers."""

MARGIN: Final = 2e-4
"""How far apart, as a share, two numbers are whose order an answer depends on. Rounding in the
answers of tools stays far below it.
"""


class Ambiguous(Exception):
    """The facts do not give one answer alone: a tie, or numbers that are too close to tell."""


class Unknown(Exception):
    """The facts that the program needs do not exist."""


class ProgramError(ValueError):
    """The text is no program; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A fact of a subject in a range of days, and the tool that is asked for it."""

    fact: str
    subject: str
    first: date
    last: date
    tool: str

    @property
    def text(self) -> str:
        return f'{self.fact}("{self.subject}", "{self.first}", "{self.last}", "{self.tool}")'


Reader = Callable[[Leaf], Series]


@dataclass(slots=True)
class Outcome:
    """The answer of a program, and the values that it read from the answers of tools on the way:
    numbers and days, in the order of use.
    """

    value: Value
    steps: list[float | str] = field(default_factory=list)


def leaves(program: str) -> list[Leaf]:
    """The leaves of a program, each once, in the order of use. Raises `ProgramError`."""
    found = (_leaf(node) for node in _in_order(_parsed(program)) if isinstance(node, ast.Call))
    return list(dict.fromkeys(leaf for leaf in found if leaf is not None))


def operations(program: str) -> int:
    """How many operations a program has."""
    return sum(
        not isinstance(node, ast.Constant | ast.Load | ast.Name | ast.operator)
        and (not isinstance(node, ast.Call) or _leaf(node) is None)
        for node in _in_order(_parsed(program))
    )


def evaluate(program: str, read: Reader) -> Outcome:
    """Run a program. Raises `Ambiguous`, `Unknown`, `ProgramError`, and what `read` raises."""
    steps: list[float | str] = []
    faults: list[Exception] = []

    def reading(leaf: Leaf) -> Series:
        try:
            return read(leaf)
        except Exception as error:
            faults.append(error)
            raise

    try:
        value = _Evaluation(reading, steps).of(_parsed(program))
    except (Ambiguous, Unknown, ProgramError, ZeroDivisionError):
        raise
    except Exception as error:
        if error in faults:
            raise
        raise ProgramError(f"it can't be evaluated: {error!r}"[:300]) from error
    return Outcome(value, steps)


def expanded(program: str, slots: Mapping[str, Any]) -> str:
    """A program whose names are replaced: by a `Leaf`, a number, a text or a day. A dict made by
    `for name, s in GROUP` gets an entry for each leaf of that slot, a dict of names to leaves.
    """
    return ast.unparse(ast.fix_missing_locations(_Expansion(slots).visit(_parsed(program))))


def _parsed(program: str) -> ast.expr:
    try:
        return ast.parse(program, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise ProgramError(f"this is no expression: {program[:200]!r}") from error


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _leaf(node: ast.Call) -> Leaf | None:
    """The leaf of a call that is none of an operation."""
    if not isinstance(node.func, ast.Name) or node.func.id in (*OPERATIONS, "pick"):
        return None
    try:
        subject, first, last, tool = (ast.literal_eval(one) for one in node.args)
        return Leaf(
            node.func.id, subject, date.fromisoformat(first), date.fromisoformat(last), tool
        )
    except (TypeError, ValueError) as error:
        text = f"{node.func.id} is no operation, and no fact with subject, two days and tool"
        raise ProgramError(text) from error


class _Expansion(ast.NodeTransformer):
    def __init__(self, slots: Mapping[str, Any]) -> None:
        self._slots = dict(slots)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._slots:
            return node
        return _node(self._slots[node.id])

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        names = node.generators[0].target
        group = node.generators[0].iter
        assert isinstance(names, ast.Tuple) and isinstance(group, ast.Name)  # noqa: S101, PT018
        name, leaf = (one.id for one in names.elts if isinstance(one, ast.Name))
        made = []
        for key, value in self._slots[group.id].items():
            each = _Expansion(self._slots | {name: key, leaf: value})
            made.append((each.visit(deepcopy(node.key)), each.visit(deepcopy(node.value))))
        return ast.Dict(keys=[key for key, _ in made], values=[value for _, value in made])


def _node(value: Leaf | float | str) -> ast.expr:
    if isinstance(value, Leaf):
        return ast.parse(value.text, mode="eval").body
    return ast.Constant(value=value)


class _Evaluation:
    """Evaluates one program."""

    def __init__(self, read: Reader, steps: list[float | str]) -> None:
        self._read = read
        self._steps = steps

    def of(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.Call(func=ast.Name(id="pick"), args=[chosen, ast.Dict() as entries]):
                return self._picked(self.of(chosen), entries)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if (
                name in OPERATIONS
            ):
                try:
                    return OPERATIONS[name](self._steps, *map(self.of, arguments))
                except TypeError as error:
                    raise ProgramError(f"{name}: {error}") from error
            case ast.Call():
                leaf = None if node.keywords else _leaf(node)
                if leaf is None:
                    raise ProgramError(f"this is no call of a program: {ast.unparse(node)[:100]}")
                found = self._read(leaf)
                if not found:
                    raise Unknown(leaf.text)
                return found
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self.of(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](_number(self.of(left)), _number(self.of(right)))
            case ast.Compare(left=left, ops=[ast.Gt() | ast.Lt() as op], comparators=[right]):
                a, b = _number(self.of(left)), _number(self.of(right))
                _apart(a, b)
                return a > b if isinstance(op, ast.Gt) else a < b
            case ast.BoolOp(op=op, values=values):
                each = [self.of(value) for value in values]
                return all(each) if isinstance(op, ast.And) else any(each)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                decided, yes, no = self.of(test), self.of(body), self.of(orelse)
                return yes if decided else no
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {self.of(k): self.of(v) for k, v in zip(keys, values, strict=True) if k}
        raise ProgramError(f"a program has no {type(node).__name__}: {ast.unparse(node)[:100]!r}")

    def _picked(self, chosen: Value, entries: ast.Dict) -> Value:
        """The value of one name; those of the others are not read."""
        for key, value in zip(entries.keys, entries.values, strict=True):
            if key is not None and self.of(key) == chosen:
                return self.of(value)
        raise ProgramError(f"pick: there is no {chosen!r}")


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def _number(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProgramError(f"{str(value)[:100]!r} is no number")
    return value


def _apart(a: float, b: float) -> None:
    """Raises `Ambiguous` where the order of two numbers could be due to rounding."""
    if abs(a - b) <= MARGIN * max(abs(a), abs(b), 1e-9):
        raise Ambiguous(f"{a} and {b} are too close")


# --- operations: the first argument collects the values that were read ---------------------------

_Steps = list[float | str]


def _read_all(steps: _Steps, series: Series) -> None:
    """An operation on a whole series has read its first and its last value."""
    steps += [series[0][1], series[-1][1]]


def _value_of(point: Callable[[Series], tuple[date, float]]) -> Callable[[_Steps, Series], float]:
    """An operation that reads the value of one point of a series."""

    def value_of(steps: _Steps, series: Series) -> float:
        steps.append(found := point(series)[1])
        return found

    return value_of


def _day_of(point: Callable[[Series], tuple[date, float]]) -> Callable[[_Steps, Series], date]:
    """An operation that reads the value of one point of a series, and gives its day."""

    def day_of(steps: _Steps, series: Series) -> date:
        day, value = point(series)
        steps += [value, str(day)]
        return day

    return day_of


_by_value = itemgetter(1)


def _at(steps: _Steps, series: Series, day: str) -> float:
    found = [value for when, value in series if str(when) == day]
    if not found:
        raise Ambiguous(f"there is no value on {day}")
    steps.append(found[0])
    return found[0]


def _alone(best: tuple[date, float], series: Series) -> tuple[date, float]:
    """Raises `Ambiguous` if another day has the same value."""
    if sum(value == best[1] for _, value in series) > 1:
        raise Ambiguous("two days have the same value")
    return best


def _over(function: Callable[[list[float]], float]) -> Callable[[_Steps, Series], float]:
    def over(steps: _Steps, series: Series) -> float:
        _read_all(steps, series)
        return function([value for _, value in series])

    return over


def _days_above(steps: _Steps, series: Series, bound: float) -> int:
    for _, value in series:
        if abs(value - bound) <= MARGIN * abs(bound):
            raise Ambiguous("a value is at the bound")
    _read_all(steps, series)
    return sum(value > bound for _, value in series)


def _day_above(steps: _Steps, series: Series, bound: float) -> date:
    """The first day above a bound, which is not the first of all."""
    _days_above([], series, bound)
    if series[0][1] > bound:
        raise Ambiguous("the first value is above the bound")
    for day, value in series:
        if value > bound:
            steps += [value, str(day)]
            return day
    raise Ambiguous("no value is above the bound")


def _moves(values: Sequence[float]) -> list[float]:
    """Changes from value to value, in percent."""
    return [(after / before - 1) * 100 for before, after in pairwise(values)]


def _rises(values: list[float]) -> int:
    if any(after == before for before, after in pairwise(values)):
        raise Ambiguous("a value is that of the day before")
    return sum(after > before for before, after in pairwise(values))


def _longest_rise(values: list[float]) -> int:
    _rises(values)
    longest = run = 0
    for before, after in pairwise(values):
        run = run + 1 if after > before else 0
        longest = max(longest, run)
    return longest


def _drawdown(values: list[float]) -> float:
    """The largest fall from an earlier peak, in percent of it."""
    peak, worst = values[0], 0.0
    for value in values:
        peak = max(peak, value)
        worst = max(worst, 1 - value / peak)
    return worst * 100


def _day_of_move(sign: int) -> Callable[[_Steps, Series], date]:
    def day_of(steps: _Steps, series: Series) -> date:
        moves = _moves([value for _, value in series])
        order = sorted(range(len(moves)), key=lambda place: -sign * moves[place])
        _apart(moves[order[0]], moves[order[1]])
        steps += [series[order[0]][1], series[order[0] + 1][1]]
        return series[order[0] + 1][0]

    return day_of


def _joined(steps: _Steps, a: Series, b: Series) -> tuple[list[float], list[float]]:
    """The values of the days that both have."""
    _read_all(steps, a)
    _read_all(steps, b)
    others = dict(b)
    both = [(value, others[day]) for day, value in a if day in others]
    if len(both) < 3:
        raise Ambiguous("too few days in common")
    return [x for x, _ in both], [y for _, y in both]


def _correlation(steps: _Steps, a: Series, b: Series) -> float:
    """Pearson's, of the percentage changes from one common day to the next."""
    x, y = (_moves(values) for values in _joined(steps, a, b))
    return _covariance(x, y) / sqrt(_covariance(x, x) * _covariance(y, y))


def _beta(steps: _Steps, a: Series, b: Series) -> float:
    x, y = (_moves(values) for values in _joined(steps, a, b))
    return _covariance(x, y) / _covariance(y, y)


def _covariance(x: list[float], y: list[float]) -> float:
    mean_x, mean_y = fmean(x), fmean(y)
    return fmean([(a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)])


def _days_higher(steps: _Steps, a: Series, b: Series) -> int:
    """The common days on which `a` is greater."""
    x, y = _joined(steps, a, b)
    for pair in zip(x, y, strict=True):
        _apart(*pair)
    return sum(one > other for one, other in zip(x, y, strict=True))


def _days_same_way(steps: _Steps, a: Series, b: Series) -> int:
    """The common days on which both rose or both fell."""
    x, y = (_moves(values) for values in _joined(steps, a, b))
    if 0.0 in x or 0.0 in y:
        raise Ambiguous("a value is that of the day before")
    return sum((one > 0) == (other > 0) for one, other in zip(x, y, strict=True))


def _pct(_: _Steps, after: float, before: float) -> float:
    return (after / before - 1) * 100


def _ranked(figures: Mapping[str, float]) -> list[str]:
    order = sorted(figures, key=lambda name: -figures[name])
    for one, other in pairwise(order):
        _apart(figures[one], figures[other])
    return order


def _above(_: _Steps, figures: Mapping[str, float], bound: float) -> list[str]:
    for figure in figures.values():
        _apart(figure, bound)
    return [name for name, figure in figures.items() if figure > bound]


OPERATIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "first": _value_of(itemgetter(0)),
    "last": _value_of(itemgetter(-1)),
    "at": _at,
    "highest": _value_of(lambda series: max(series, key=_by_value)),
    "lowest": _value_of(lambda series: min(series, key=_by_value)),
    "day_highest": _day_of(lambda series: _alone(max(series, key=_by_value), series)),
    "day_lowest": _day_of(lambda series: _alone(min(series, key=_by_value), series)),
    "day_above": _day_above,
    "day_of_best": _day_of_move(1),
    "day_of_worst": _day_of_move(-1),
    "mean": _over(fmean),
    "median": _over(median),
    "total": _over(sum),
    "rises": _over(_rises),
    "longest_rise": _over(_longest_rise),
    "drawdown": _over(_drawdown),
    "volatility": _over(lambda values: stdev(_moves(values))),
    "best_move": _over(lambda values: max(_moves(values))),
    "worst_move": _over(lambda values: min(_moves(values))),
    "days_above": _days_above,
    "correlation": _correlation,
    "beta": _beta,
    "days_higher": _days_higher,
    "days_same_way": _days_same_way,
    "pct": _pct,
    "top": lambda _, figures: _ranked(figures)[0],
    "bottom": lambda _, figures: _ranked(figures)[-1],
    "second": lambda _, figures: _ranked(figures)[1],
    "ranking": lambda _, figures: _ranked(figures),
    "above": _above,
    "spread": lambda _, figures: max(figures.values()) - min(figures.values()),
    "average": lambda _, figures: fmean(figures.values()),
    "number_above": lambda steps, figures, bound: len(_above(steps, figures, bound)),
    "table": lambda _, figures: dict(figures),
    "changes": lambda _, after, before: {
        name: (after[name] / before[name] - 1) * 100 for name in after
    },
}
"""Operations by name. Each takes the list of values read, then the values of its arguments."""
