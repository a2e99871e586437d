"""Plants drift of one kind, at one of three strengths, in the later answers of a simulated tool."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bench.drift.planted.world import START, Answer, Role, Simulated, copied

STRENGTHS: Final = ("weak", "medium", "strong")

_TABLES: Final = ("series", "cross", "events")
_VALUES: Final[tuple[Role, ...]] = ("price", "amount")
_NUMBERS: Final[tuple[Role, ...]] = (*_VALUES, "percent")


@dataclass(frozen=True, slots=True)
class Planted:
    """What kind of drift was planted in a tool, and which check is to find it. `columns` are the
    columns or paths that a finding may name, or None if any will do.
    """

    tool: str
    kind: str
    check: str
    strength: str
    columns: frozenset[str] | None = None


Columns = frozenset[str]


def _each(tool: Simulated, strength: int) -> list[Answer]:
    """The later answers of one, two or three probes."""
    return tool.after[: strength + 1]


def _fail(answer: Answer, code: str) -> None:
    answer.status, answer.columns = code, None
    answer.value = {"code": code, "message": "simulated failure", "retryable": False}


def _availability(tool: Simulated, strength: int) -> None:
    code = tool.luck.choice(("upstream_error", "upstream_invalid", "timeout", "unavailable"))
    for answer in _each(tool, strength):
        _fail(answer, code)


def _error_code(tool: Simulated, strength: int) -> None:
    for answer in (*tool.before, *tool.after):
        _fail(answer, "upstream_error")
    for answer in _each(tool, strength):
        _fail(answer, "timeout")


def _empty(tool: Simulated, strength: int) -> None:
    for answer in _each(tool, strength):
        if answer.columns is None and tool.luck.random() < 0.5:
            _fail(answer, "upstream_empty")
        else:
            answer.value = [] if answer.columns is not None else {}


def _some(tool: Simulated, strength: int, *roles: Role) -> list[str]:
    names = tool.named(*roles)
    return tool.luck.sample(names, min(strength + 1, len(names)))


def _rebuilt(tool: Simulated, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for answer in tool.after:
        answer.value = [change(row) for row in answer.value]
        answer.columns = [*answer.value[0]] if answer.value else answer.columns


def _column_removed(tool: Simulated, strength: int) -> Columns:
    gone = {*_some(tool, strength, *_NUMBERS, "category", "text", "count")}
    _rebuilt(tool, lambda row: {name: cell for name, cell in row.items() if name not in gone})
    return frozenset(gone)


def _column_added(tool: Simulated, strength: int) -> Columns:
    luck = tool.luck
    new = [f"新增{n}" for n in range(strength + 1)]
    _rebuilt(tool, lambda row: row | {name: round(luck.gauss(0, 1e3), 3) for name in new})
    return frozenset(new)


def _column_renamed(tool: Simulated, strength: int) -> Columns:
    """Strong: a similar name. Medium: another name. Weak: another name, in another place."""
    [old] = _some(tool, 0, *_VALUES)
    new = f"{old}_new" if strength == 2 else "renamed"

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if strength:
            return {new if name == old else name: cell for name, cell in row.items()}
        return {**{n: c for n, c in row.items() if n != old}, new: row[old]}

    _rebuilt(tool, change)
    return frozenset([old])


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """The paths of a document's fields, with the object that holds each and its key."""
    for key, inner in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(inner, list):
            for item in inner:
                yield from _leaves(item, f"{path}[]")
        elif not isinstance(inner, dict):
            yield path, value, key
        elif key not in ("rates", "history"):
            yield from _leaves(inner, path)
        else:
            for bar in inner.values():
                yield from _leaves(bar, f"{path}.*") if isinstance(bar, dict) else ()


def _chosen_paths(tool: Simulated, count: int, *, numeric: bool = False) -> list[str]:
    paths: dict[str, None] = {}
    for path, holder, key in _leaves(tool.after[0].value):
        cell = holder[key]
        is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
        if key not in ("image", "id", "endDate") and (is_number or not numeric):
            paths[path] = None
    return tool.luck.sample([*paths], min(count, len(paths)))


def _change_paths(
    tool: Simulated, paths: list[str], change: Callable[[dict[str, Any], str], None]
) -> None:
    for answer in tool.after:
        for path, holder, key in [*_leaves(answer.value)]:
            if path in paths:
                change(holder, key)


def _path_removed(tool: Simulated, strength: int) -> Columns:
    if strength == 2:  # the first object or array as a whole
        name = next((n for n, v in tool.after[0].value.items() if isinstance(v, dict | list)), "")
        if name:
            for answer in tool.after:
                del answer.value[name]
            return frozenset([name, f"{name}[]", f"{name}.*"])
    paths = _chosen_paths(tool, strength + 1)
    _change_paths(tool, paths, lambda holder, key: holder.__delitem__(key))
    return _and_parents(paths)


def _path_added(tool: Simulated, strength: int) -> Columns:
    luck = tool.luck
    if strength == 2:
        for answer in tool.after:
            answer.value["extra"] = {"score": round(luck.random(), 3), "grade": "A"}
        return _and_parents(["extra.score", "extra.grade"])
    paths = _chosen_paths(tool, strength + 1)
    _change_paths(tool, paths, lambda holder, key: holder.__setitem__(f"{key}X", luck.random()))
    return _and_parents([f"{path}X" for path in paths])


def _and_parents(paths: list[str]) -> Columns:
    return frozenset(p for path in paths for p in (path, path.rpartition(".")[0]) if p)


def _values(
    tool: Simulated,
    change: Callable[[Any], Any],
    share: float,
    *roles: Role,
    numeric: bool = True,
) -> Columns:
    """Change a share of the values in one column with one of these roles; of a document, all at one
    path.
    """
    if tool.kind == "document":
        paths = _chosen_paths(tool, 1, numeric=numeric)
        _change_paths(tool, paths, lambda holder, key: holder.update({key: change(holder[key])}))
        return frozenset(paths)
    [name] = _some(tool, 0, *roles)
    return _cells(tool, name, change, share)


def _cells(tool: Simulated, name: str, change: Callable[[Any], Any], share: float) -> Columns:
    """Change a share of the values in a column of a table."""
    for answer in tool.after:
        for row in answer.value:
            if row[name] is not None and tool.luck.random() < share:
                row[name] = change(row[name])
    return frozenset([name])


def _type_changed(tool: Simulated, strength: int) -> Columns:
    return _values(tool, str, (0.2, 0.5, 1.0)[strength], *_NUMBERS)


def _null_share(tool: Simulated, strength: int) -> Columns:
    share = (0.25, 0.5, 1.0)[strength]
    return _values(tool, lambda _: None, share, *_NUMBERS, "text", numeric=False)


def _unit_changed(tool: Simulated, strength: int) -> Columns:
    power = (2, 3, 4)[strength] * tool.luck.choice((1, -1))

    def scaled(cell: Any) -> Any:
        return cell * 10**power if power > 0 else cell / 10**-power

    return _values(tool, scaled, 1.0, *_NUMBERS)


def _row_count(tool: Simulated, strength: int) -> None:
    share = (0.5, 0.25, 3.0)[strength]
    for answer in tool.after:
        rows = answer.value["data"] if tool.kind == "document" else answer.value
        if share > 1:
            rows[:] = [dict(row) for row in rows for _ in range(int(share))]
        else:
            del rows[int(len(rows) * share) :]


def _distribution(tool: Simulated, strength: int) -> Columns:
    """A part of the values comes from a wider law with another centre."""
    [name] = _some(tool, 0, *_VALUES)
    level, luck = tool.columns[name].level * 3, tool.luck

    def drawn(_: Any) -> float:
        return round(level * luck.lognormvariate(0, 1.4), 2)

    return _cells(tool, name, drawn, (0.4, 0.7, 1.0)[strength])


def _categories(tool: Simulated, strength: int) -> Columns:
    [name] = _some(tool, 0, "category")
    words = tool.columns[name].words
    other = {word: f"{word}类" for word in words[: (1, 2, len(words))[strength]]}
    return _cells(tool, name, lambda word: other.get(word, word), 1.0)


def _stale(tool: Simulated, strength: int) -> None:
    """The later answers are those of before, and were recorded 14, 30 or 90 days later."""
    for before, after in zip(tool.before, tool.after, strict=True):
        after.value = copied(before.value)
        after.recorded_at = before.recorded_at + (14, 30, 90)[strength] * 86_400


def _gap(tool: Simulated, strength: int) -> None:
    """Single dates, a tenth or a third of the dates inside the window are missing."""
    today = START.date().isoformat()
    for answer in tool.after:
        inside = [n for n, row in enumerate(answer.value) if row[tool.date] < today][15:-15]
        count = (2, len(inside) // 10, len(inside) // 3)[strength]
        gone = {*tool.luck.sample(inside, max(count, 1))}
        answer.value = [row for n, row in enumerate(answer.value) if n not in gone]


def _restated(tool: Simulated, strength: int) -> Columns:
    factor = tool.luck.choice((0.97, 1.02, 1.1, 0.5))
    share = (0.05, 0.3, 1.0)[strength]
    return _values(tool, lambda cell: round(cell * factor, 2), share, *_VALUES)


def _dates_moved(tool: Simulated, strength: int) -> Columns:
    """To the next day of one call, to the next working day, to the next day."""
    date = tool.date or ""
    for answer in tool.after[: None if strength else 1]:
        for row in answer.value:
            day = datetime.fromisoformat(row[date]) + timedelta(days=1)
            while strength == 1 and day.weekday() > 4:
                day += timedelta(days=1)
            row[date] = day.date().isoformat()
    return frozenset([date])


def _placeholder(tool: Simulated, strength: int) -> Columns:
    value = tool.luck.choice((0, -1))
    return _values(tool, lambda _: value, (0.2, 1 / 3, 0.7)[strength], *_VALUES)


def _permuted(tool: Simulated, strength: int) -> Columns:
    """A third of the prices, or all, belong to other codes; the strongest are those of before."""
    name = tool.luck.choice(tool.prices())
    for before, after in zip(tool.before, tool.after, strict=True):
        if "代码" not in before.value[0]:
            continue
        if strength == 2:
            known = {row["代码"]: row[name] for row in before.value}
            for row in after.value:
                row[name] = known.get(row["代码"], row[name])
        chosen = [row for row in after.value if strength or tool.luck.random() < 1 / 3]
        cells = [row[name] for row in chosen]
        tool.luck.shuffle(cells)
        for row, cell in zip(chosen, cells, strict=True):
            row[name] = cell
    return frozenset([name])


def _price_not_positive(tool: Simulated, strength: int) -> Columns:
    name = tool.luck.choice(("price", "open"))
    for answer in _each(tool, strength):
        answer.value[name] = (0, -1, -answer.value[name])[strength]
    return frozenset([name])


def _with_values(name: str, text: str) -> Callable[[Simulated, int], Columns]:
    """Another text, and values multiplied as for another currency or instrument."""

    def planted(tool: Simulated, strength: int) -> Columns:
        for answer in _each(tool, strength):
            factor = tool.luck.choice((0.14, 0.92, 7.1))
            answer.value[name] = text
            for _, holder, key in _leaves(answer.value):
                if isinstance(cell := holder[key], int | float):
                    holder[key] = round(cell * factor, 2)
        return frozenset([name])

    return planted


def _time_back(tool: Simulated, strength: int) -> Columns:
    name = "asOf" if "asOf" in tool.after[0].value else "date"
    for answer in tool.after:
        answer.value[name] = ("2024-06-28", "2019-01-02", "1970-01-01")[strength]
    return frozenset([name])


def _order(tool: Simulated, strength: int) -> None:
    for answer in tool.after:
        if strength == 0:
            names = tool.luck.sample([*answer.value[0]], len(answer.value[0]))
            if names == [*answer.value[0]]:
                names.reverse()
            answer.value = [{name: row[name] for name in names} for row in answer.value]
            answer.columns = names
        elif strength == 1:
            tool.luck.shuffle(answer.value)
        else:
            answer.value.reverse()


def _latency(tool: Simulated, strength: int) -> None:
    for answer in tool.after:
        answer.latency_ms *= (4, 8, 20)[strength]


Fits = Callable[[Simulated], bool]


def _of(*kinds: str, roles: tuple[Role, ...] = ()) -> Fits:
    """Tools of these kinds, which have a column with one of these roles."""
    return lambda tool: tool.kind in kinds and bool(not roles or tool.named(*roles))


def _document_with(*names: str) -> Fits:
    """Documents with one of these fields."""
    return lambda tool: tool.kind == "document" and not tool.after[0].value.keys().isdisjoint(names)


def _has_numbers(tool: Simulated) -> bool:
    if tool.kind == "document":
        return bool(_chosen_paths(tool, 1, numeric=True))
    return bool(tool.named(*_VALUES))


def _has_codes(tool: Simulated) -> bool:
    return _of("cross")(tool) and "代码" in tool.after[0].value[0] and bool(tool.prices())


@dataclass(frozen=True, slots=True)
class Drift:
    """How drift of a kind is planted at a strength, and in which tools. `check` finds it, if it has
    another name than the kind. What `plant` returns are the `columns` of `Planted`.
    """

    plant: Callable[[Simulated, int], Columns | None]
    fits: Fits = lambda _: True
    check: str | None = None


PLANTS: Final[Mapping[str, Drift]] = {
    "availability": Drift(_availability),
    "error_code": Drift(_error_code),
    "empty": Drift(_empty),
    "column_removed": Drift(_column_removed, _of(*_TABLES)),
    "column_added": Drift(_column_added, _of(*_TABLES)),
    "column_renamed": Drift(_column_renamed, _of("cross", "series", roles=_VALUES)),
    "path_removed": Drift(_path_removed, _of("document")),
    "path_added": Drift(_path_added, _of("document")),
    "type_changed": Drift(_type_changed, _has_numbers),
    "null_share": Drift(
        _null_share,
        lambda tool: tool.kind == "document" or _of(*_TABLES, roles=(*_NUMBERS, "text"))(tool),
    ),
    "row_count": Drift(
        _row_count, lambda tool: _of("cross", "events")(tool) or _document_with("data")(tool)
    ),
    "unit_changed": Drift(_unit_changed, _has_numbers),
    "distribution": Drift(_distribution, _of("cross", roles=_VALUES)),
    "categories": Drift(_categories, _of(*_TABLES, roles=("category",))),
    "stale": Drift(
        _stale,
        lambda tool: (
            _of("series", "events")(tool) and tool.manifest.timeliness in ("realtime", "daily")
        ),
    ),
    "gap": Drift(_gap, _of("series")),
    "restated": Drift(_restated, _of("series", roles=_VALUES)),
    "order": Drift(_order, _of("series")),
    "latency": Drift(_latency),
    "dates_moved": Drift(_dates_moved, _of("series", roles=_VALUES), "restated"),
    "placeholder": Drift(_placeholder, _of("cross", "series", roles=_VALUES), "invalid"),
    "permuted": Drift(_permuted, _has_codes),
    "price_not_positive": Drift(_price_not_positive, _document_with("asOf"), "invalid"),
    "currency_changed": Drift(
        _with_values("currency", "CNY"), _document_with("asOf"), "unit_changed"
    ),
    "symbol_changed": Drift(
        _with_values("symbol", "OTHER"), _document_with("asOf"), "identity_changed"
    ),
    "time_back": Drift(_time_back, _document_with("asOf", "date"), "stale"),
}


def plant(tool: Simulated, kind: str, strength: int) -> Planted:
    """Plant drift in the later answers of `tool`."""
    drift = PLANTS[kind]
    columns = drift.plant(tool, strength)
    return Planted(tool.manifest.name, kind, drift.check or kind, STRENGTHS[strength], columns)
