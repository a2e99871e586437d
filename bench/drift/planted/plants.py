"""Plants drift of one kind, at one of three strengths, in the later answers of a simulated tool."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bench.drift.planted.world import START, Answer, Simulated, copied

STRENGTHS: Final = ("weak", "medium", "strong")


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


Plant = Callable[[Simulated, int], frozenset[str] | None]


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


def _some(tool: Simulated, strength: int, *roles: Any) -> list[str]:
    names = tool.named(*roles)
    return tool.luck.sample(names, min(strength + 1, len(names)))


def _rebuilt(tool: Simulated, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for answer in tool.after:
        answer.value = [change(row) for row in answer.value]
        answer.columns = [*answer.value[0]] if answer.value else answer.columns


def _column_removed(tool: Simulated, strength: int) -> frozenset[str]:
    gone = {*_some(tool, strength, "price", "amount", "percent", "category", "text", "count")}
    _rebuilt(tool, lambda row: {name: cell for name, cell in row.items() if name not in gone})
    return frozenset(gone)


def _column_added(tool: Simulated, strength: int) -> frozenset[str]:
    luck = tool.luck
    new = [f"新增{n}" for n in range(strength + 1)]
    _rebuilt(tool, lambda row: row | {name: round(luck.gauss(0, 1e3), 3) for name in new})
    return frozenset(new)


def _column_renamed(tool: Simulated, strength: int) -> frozenset[str]:
    """Strong: a similar name. Medium: another name. Weak: another name, in another place."""
    [old] = _some(tool, 0, "price", "amount")
    new = f"{old}_new" if strength == 2 else "renamed"

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if strength:
            return {new if name == old else name: cell for name, cell in row.items()}
        return {**{n: c for n, c in row.items() if n != old}, new: row[old]}

    _rebuilt(tool, change)
    return frozenset([old])


def _leaves(value: Any, prefix: str = "") -> list[tuple[str, Mapping[str, Any], str]]:
    """The paths of a document's fields, with the object that holds each and its key."""
    found = []
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else key
            if isinstance(inner, dict) and key not in ("rates", "history"):
                found += _leaves(inner, path)
            elif isinstance(inner, list):
                found += _leaves(inner, f"{path}[]")
            elif isinstance(inner, dict):
                for bar in inner.values():
                    found += _leaves(bar, f"{path}.*") if isinstance(bar, dict) else []
            else:
                found.append((path, value, key))
    elif isinstance(value, list):
        for item in value:
            found += _leaves(item, prefix)
    return found


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
        for path, holder, key in _leaves(answer.value):
            if path in paths:
                change(holder, key)  # type: ignore[arg-type]


def _path_removed(tool: Simulated, strength: int) -> frozenset[str] | None:
    if strength == 2:  # the first object or array as a whole
        name = next((n for n, v in tool.after[0].value.items() if isinstance(v, dict | list)), "")
        if name:
            for answer in tool.after:
                del answer.value[name]
            return frozenset([name, f"{name}[]", f"{name}.*"])
    paths = _chosen_paths(tool, strength + 1)
    _change_paths(tool, paths, lambda holder, key: holder.__delitem__(key))
    return _and_parents(paths)


def _path_added(tool: Simulated, strength: int) -> frozenset[str] | None:
    luck = tool.luck
    if strength == 2:
        for answer in tool.after:
            answer.value["extra"] = {"score": round(luck.random(), 3), "grade": "A"}
        return _and_parents(["extra.score", "extra.grade"])
    paths = _chosen_paths(tool, strength + 1)
    _change_paths(tool, paths, lambda holder, key: holder.__setitem__(f"{key}X", luck.random()))
    return _and_parents([f"{path}X" for path in paths])


def _and_parents(paths: list[str]) -> frozenset[str]:
    return frozenset(p for path in paths for p in (path, path.rpartition(".")[0]) if p)


def _type_changed(tool: Simulated, strength: int) -> frozenset[str]:
    if tool.kind == "document":
        paths = _chosen_paths(tool, 1, numeric=True)
        _change_paths(tool, paths, lambda holder, key: holder.__setitem__(key, str(holder[key])))
        return frozenset(paths)
    share = (0.2, 0.5, 1.0)[strength]
    return _in_column(tool, str, share, "price", "amount", "percent")


def _in_column(
    tool: Simulated, change: Callable[[Any], Any], share: float, *roles: Any
) -> frozenset[str]:
    [name] = _some(tool, 0, *roles)
    for answer in tool.after:
        for row in answer.value:
            if row[name] is not None and tool.luck.random() < share:
                row[name] = change(row[name])
    return frozenset([name])


def _null_share(tool: Simulated, strength: int) -> frozenset[str]:
    if tool.kind == "document":
        paths = _chosen_paths(tool, 1)
        _change_paths(tool, paths, lambda holder, key: holder.__setitem__(key, None))
        return frozenset(paths)
    share = (0.25, 0.5, 1.0)[strength]
    return _in_column(tool, lambda _: None, share, "price", "amount", "percent", "text")


def _unit_changed(tool: Simulated, strength: int) -> frozenset[str]:
    power = (2, 3, 4)[strength] * tool.luck.choice((1, -1))

    def scaled(cell: Any) -> Any:
        return cell * 10**power if power > 0 else cell / 10**-power

    if tool.kind == "document":
        paths = _chosen_paths(tool, 1, numeric=True)
        _change_paths(tool, paths, lambda holder, key: holder.__setitem__(key, scaled(holder[key])))
        return frozenset(paths)
    return _in_column(tool, scaled, 1.0, "price", "amount", "percent")


def _row_count(tool: Simulated, strength: int) -> None:
    share = (0.5, 0.25, 3.0)[strength]
    for answer in tool.after:
        rows = answer.value["data"] if tool.kind == "document" else answer.value
        if share > 1:
            rows[:] = [dict(row) for row in rows for _ in range(int(share))]
        else:
            del rows[int(len(rows) * share) :]


def _distribution(tool: Simulated, strength: int) -> frozenset[str]:
    """A part of the values comes from a wider law with another centre."""
    share = (0.4, 0.7, 1.0)[strength]
    luck = tool.luck
    [name] = _some(tool, 0, "price", "amount")
    [column] = [c for c in tool.columns if c.name == name]
    for answer in tool.after:
        for row in answer.value:
            if row[name] is not None and luck.random() < share:
                row[name] = round(column.level * 3 * luck.lognormvariate(0, 1.4), 2)
    return frozenset([name])


def _categories(tool: Simulated, strength: int) -> frozenset[str]:
    [name] = _some(tool, 0, "category")
    [column] = [c for c in tool.columns if c.name == name]
    other = {word: f"{word}类" for word in column.words[: (1, 2, len(column.words))[strength]]}
    for answer in tool.after:
        for row in answer.value:
            row[name] = other.get(row[name], row[name])
    return frozenset([name])


def _stale(tool: Simulated, strength: int) -> None:
    """The later answers are those of before, and were recorded 14, 30 or 90 days later."""
    for before, after in zip(tool.before, tool.after, strict=True):
        after.value = copied(before.value)
        later = timedelta(days=(14, 30, 90)[strength])
        recorded = datetime.fromtimestamp(before.recorded_at, START.tzinfo) + later
        after.recorded_at = recorded.timestamp()


def _gap(tool: Simulated, strength: int) -> None:
    """Single dates, a tenth or a third of the dates inside the window are missing."""
    today = START.date().isoformat()
    for answer in tool.after:
        inside = [n for n, row in enumerate(answer.value) if row[tool.date] < today][15:-15]
        count = (2, len(inside) // 10, len(inside) // 3)[strength]
        gone = {*tool.luck.sample(inside, max(count, 1))}
        answer.value = [row for n, row in enumerate(answer.value) if n not in gone]


def _restated(tool: Simulated, strength: int) -> frozenset[str]:
    share = (0.05, 0.3, 1.0)[strength]
    factor = tool.luck.choice((0.97, 1.02, 1.1, 0.5))
    return _in_column(tool, lambda cell: round(cell * factor, 2), share, "price", "amount")


def _dates_moved(tool: Simulated, strength: int) -> frozenset[str]:
    """To the next day of one call, to the next working day, to the next day."""
    date = tool.date or ""
    for answer in tool.after[: None if strength else 1]:
        for row in answer.value:
            day = datetime.fromisoformat(row[date]) + timedelta(days=1)
            while strength == 1 and day.weekday() > 4:
                day += timedelta(days=1)
            row[date] = day.date().isoformat()
    return frozenset([date])


def _placeholder(tool: Simulated, strength: int) -> frozenset[str]:
    value = tool.luck.choice((0, -1))
    return _in_column(tool, lambda _: value, (0.2, 1 / 3, 0.7)[strength], "price", "amount")


def _permuted(tool: Simulated, strength: int) -> frozenset[str]:
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


def _price_not_positive(tool: Simulated, strength: int) -> frozenset[str]:
    name = tool.luck.choice(("price", "open"))
    for answer in _each(tool, strength):
        answer.value[name] = (0, -1, -answer.value[name])[strength]
    return frozenset([name])


def _with_values(name: str, text: str) -> Plant:
    """Another text, and values multiplied as for another currency or instrument."""

    def planted(tool: Simulated, strength: int) -> frozenset[str]:
        for answer in _each(tool, strength):
            factor = tool.luck.choice((0.14, 0.92, 7.1))
            answer.value[name] = text
            for _, holder, key in _leaves(answer.value):
                if isinstance(cell := holder[key], int | float):
                    holder[key] = round(cell * factor, 2)  # type: ignore[index]
        return frozenset([name])

    return planted


def _time_back(tool: Simulated, strength: int) -> frozenset[str]:
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


PLANTS: Final[Mapping[str, Plant]] = {
    "availability": _availability,
    "error_code": _error_code,
    "empty": _empty,
    "column_removed": _column_removed,
    "column_added": _column_added,
    "column_renamed": _column_renamed,
    "path_removed": _path_removed,
    "path_added": _path_added,
    "type_changed": _type_changed,
    "null_share": _null_share,
    "row_count": _row_count,
    "unit_changed": _unit_changed,
    "distribution": _distribution,
    "categories": _categories,
    "stale": _stale,
    "gap": _gap,
    "restated": _restated,
    "order": _order,
    "latency": _latency,
    "dates_moved": _dates_moved,
    "placeholder": _placeholder,
    "permuted": _permuted,
    "price_not_positive": _price_not_positive,
    "currency_changed": _with_values("currency", "CNY"),
    "symbol_changed": _with_values("symbol", "OTHER"),
    "time_back": _time_back,
}

CHECK_OF: Final[Mapping[str, str]] = {
    "dates_moved": "restated",
    "placeholder": "invalid",
    "price_not_positive": "invalid",
    "currency_changed": "unit_changed",
    "symbol_changed": "identity_changed",
    "time_back": "stale",
}
"""The check that finds a kind of drift, if it has another name."""


def can_have(tool: Simulated, kind: str) -> bool:
    """Whether drift of that kind can be planted in a tool."""
    is_table = tool.kind != "document"
    document = None if is_table else tool.after[0].value
    match kind:
        case "column_removed" | "column_added":
            return is_table
        case "column_renamed" | "distribution":
            kinds = ("cross",) if kind == "distribution" else ("cross", "series")
            return tool.kind in kinds and bool(tool.named("price", "amount"))
        case "path_removed" | "path_added":
            return not is_table
        case "type_changed" | "unit_changed":
            if document is not None:
                return bool(_chosen_paths(tool, 1, numeric=True))
            return bool(tool.named("price", "amount"))
        case "null_share":
            return not is_table or bool(tool.named("price", "amount", "percent", "text"))
        case "row_count":
            return tool.kind in ("cross", "events") or (document is not None and "data" in document)
        case "categories":
            return is_table and bool(tool.named("category"))
        case "stale":
            return tool.kind in ("series", "events") and tool.manifest.timeliness in (
                "realtime",
                "daily",
            )
        case "gap" | "order":
            return tool.kind == "series"
        case "restated" | "dates_moved":
            return tool.kind == "series" and bool(tool.named("price", "amount"))
        case "placeholder":
            return tool.kind in ("cross", "series") and bool(tool.named("price", "amount"))
        case "permuted":
            has_code = tool.kind == "cross" and "代码" in tool.after[0].value[0]
            return has_code and bool(tool.prices())
        case "price_not_positive" | "currency_changed" | "symbol_changed":
            return document is not None and "asOf" in document
        case "time_back":
            return document is not None and not document.keys().isdisjoint(("asOf", "date"))
    return True


def plant(tool: Simulated, kind: str, strength: int) -> Planted:
    """Plant drift in the later answers of `tool`."""
    columns = PLANTS[kind](tool, strength)
    check = CHECK_OF.get(kind, kind)
    return Planted(tool.manifest.name, kind, check, STRENGTHS[strength], columns)
