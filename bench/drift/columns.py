"""The columns that a function's code gives its table, as far as the code names them.

Followed are assignments to `.columns`, `rename`, selections `table[[...]]`, new and dropped columns
and frames made with columns: per variable, through branches and loops, up to what is returned. A
later selection replaces what was set before it. Columns that an answer names are not in the code;
`OTHERS` among the names says that there may be such.
"""

import ast
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from bench.drift.package import FunctionNode

Names = tuple[str, ...]
State = dict[str, Names]

OTHERS: Final = "\0others"
"""Stands for columns that the code does not name, or not in a way that is followed here."""

_UNKNOWN: Final = (OTHERS,)
_MAX_HOPS: Final = 8
_MAX_STEPS: Final = 200_000
"""How many expressions are looked at in a function; lists made of each other twice have no end."""

_AS_BEFORE: Final = ("loc", "iloc", "values")


def columns_set(
    function: FunctionNode,
    called: Callable[[ast.expr], Names | None],
    constant: Callable[[ast.expr], ast.expr | None],
) -> Names:
    """The columns of what `function` returns, in order. `called` gives those of what another
    function of the package returns, from the expression that names it, or None if that names none;
    `constant` gives the value that the package binds to a name.

    Raises `RecursionError` if the code is nested too deeply.
    """
    flow = _Flow(called, constant)
    flow.block(function.body, {})
    return tuple(name for name in flow.returned if name.strip(" -_"))  # `-` and `_`: not wanted


def _union(*several: Names) -> Names:
    return tuple(dict.fromkeys(chain.from_iterable(several)))


def _merged(*states: State | None) -> State | None:
    """What may hold after branches; None if none of them goes on."""
    going = [state for state in states if state is not None]
    if len(going) <= 1:
        return going[0] if going else None
    merged: State = {}
    for state in going:
        for name, names in state.items():
            known = merged.get(name)
            merged[name] = names if known is None or known == names else _union(known, names)
    return merged


class _Flow:
    def __init__(
        self,
        called: Callable[[ast.expr], Names | None],
        constant: Callable[[ast.expr], ast.expr | None],
    ) -> None:
        self._called, self._constant = called, constant
        self._literals: dict[str, ast.expr] = {}
        self._left = _MAX_STEPS
        self.returned: Names = ()

    def block(self, statements: Iterable[ast.stmt], state: State) -> State | None:
        """The state after a block, which may change `state`; None if the block does not end."""
        after: State | None = state
        for statement in statements:
            if after is None:
                return None
            after = self._statement(statement, after)
        return after

    def _statement(self, statement: ast.stmt, state: State) -> State | None:
        match statement:
            case ast.Return():
                self.returned = _union(self.returned, self._table(statement.value, state))
                return None
            case ast.Raise():
                return None
            case ast.Assign():
                for target in statement.targets:
                    self._assign(target, statement.value, state)
            case ast.AnnAssign() if statement.value is not None:
                self._assign(statement.target, statement.value, state)
            case ast.Expr(value=ast.Call() as call):
                self._in_place(call, state)
            case ast.Delete():
                for target in statement.targets:
                    if (place := _column_of(target)) is not None and place[0] in state:
                        state[place[0]] = tuple(n for n in state[place[0]] if n != place[1])
            case ast.If():
                return _merged(
                    self.block(statement.body, {**state}), self.block(statement.orelse, state)
                )
            case ast.For() | ast.AsyncFor() | ast.While():
                after = _merged(self.block(statement.body, {**state}), state)
                return self.block(statement.orelse, after or state)
            case ast.With() | ast.AsyncWith():
                return self.block(statement.body, state)
            case ast.Try():
                before = {**state}
                after = self.block([*statement.body, *statement.orelse], state)
                handled = (self.block(handler.body, {**before}) for handler in statement.handlers)
                return _merged(after, *handled)
        return state

    def _assign(self, target: ast.expr, value: ast.expr, state: State) -> None:
        match target:
            case ast.Name(id=name):
                state[name] = self._table(value, state)
                if isinstance(value, ast.List | ast.Tuple | ast.Dict):
                    self._literals[name] = value
                else:
                    self._literals.pop(name, None)
            case ast.Attribute(value=ast.Name(id=name), attr="columns"):
                state[name] = self._texts(value)
            case ast.Tuple(elts=elements):
                for element in elements:
                    if isinstance(element, ast.Name):
                        state[element.id] = _UNKNOWN
            case _:
                if (place := _column_of(target)) is not None:
                    state[place[0]] = _union(state.get(place[0], _UNKNOWN), (place[1],))

    def _in_place(self, call: ast.Call, state: State) -> None:
        """A call whose result is not used changes its table, or does nothing that matters here."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=table), attr=method):
                before = state.get(table, _UNKNOWN)
                if method in ("append", "extend"):
                    rows = (self._rows(value, state) for value in call.args)
                    state[table] = _union(before, *rows)
                elif method == "insert":
                    column = call.args[1] if len(call.args) > 1 else _keyword(call, "column")
                    state[table] = _union(before, self._texts(column))
                elif method in ("rename", "drop") and _keyword(call, "inplace"):
                    state[table] = self._table(call, state)

    def _rows(self, value: ast.expr, state: State) -> Names:
        """The columns that a row, or a table, adds to a list of them."""
        return self._texts(value) if isinstance(value, ast.Dict) else self._table(value, state)

    def _table(self, value: ast.expr | None, state: State) -> Names:
        """The columns of what an expression gives, if it is a table."""
        match value:
            case None | ast.Constant():
                return ()
            case ast.Name(id=name):
                return state.get(name, _UNKNOWN)
            case ast.Subscript(value=ast.Attribute(attr="loc") as table, slice=ast.Tuple() as at):
                return self._selected(at.elts[-1], self._table(table, state))
            case ast.Subscript(value=table, slice=at):
                return self._selected(at, self._table(table, state))
            case ast.Attribute(value=table, attr=attribute) if attribute in _AS_BEFORE:
                return self._table(table, state)
            case ast.Call():
                return self._call(value, state)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
                return _union(*(self._rows(part, state) for part in parts))
            case ast.Dict(values=parts):
                return _union(*(self._table(part, state) for part in parts))
            case ast.IfExp(body=one, orelse=other):
                return _union(self._table(one, state), self._table(other, state))
        return _UNKNOWN

    def _selected(self, at: ast.expr, names: Names) -> Names:
        """The columns of `table[at]`."""
        match at:
            case ast.List() | ast.Call():
                return self._texts(at)
            case ast.Name():
                chosen = self._texts(at)
                return _union(names, _UNKNOWN) if chosen == _UNKNOWN else chosen
            case ast.Constant(value=str()):
                return _UNKNOWN  # one column, which is no table
        return names  # rows, by a condition or a slice

    def _call(self, call: ast.Call, state: State) -> Names:
        given = call.args[0] if call.args else _keyword(call, "data")
        match call.func:
            case ast.Attribute(attr="DataFrame") | ast.Name(id="DataFrame"):
                columns = _keyword(call, "columns")
                if columns is not None:
                    return self._texts(columns)
                is_literal = isinstance(given, ast.Dict)
                return self._texts(given) if is_literal else self._table(given, state)
            case ast.Attribute(value=receiver, attr="concat" | "merge" | "join"):
                named = (_keyword(call, key) for key in ("objs", "left", "right"))
                parts = [receiver, *call.args, *(part for part in named if part is not None)]
                if isinstance(receiver, ast.Name) and receiver.id not in state:
                    del parts[0]  # the library itself
                return _union(*(self._table(part, state) for part in parts))
        known = self._called(call.func)
        if known is not None or not isinstance(call.func, ast.Attribute):
            if known is not None and OTHERS not in known:
                return known
            # A helper that gets a table often hands it on.
            handed = (self._table(part, state) for part in call.args if isinstance(part, ast.Name))
            return _union(*handed, known or (), _UNKNOWN)
        return self._method(call, call.func, given, state)

    def _method(
        self, call: ast.Call, function: ast.Attribute, given: ast.expr | None, state: State
    ) -> Names:
        """The columns of what a method of a table returns."""
        names = self._table(function.value, state)
        if function.attr == "rename":
            axis = _keyword(call, "axis")
            by_axis = given if isinstance(axis, ast.Constant) and axis.value else None
            return self._renamed(names, _keyword(call, "columns") or by_axis)
        if function.attr == "drop":
            by_axis = given if _keyword(call, "axis") is not None else None
            dropped = self._texts(_keyword(call, "columns") or by_axis)
            return tuple(name for name in names if name == OTHERS or name not in dropped)
        return names

    def _renamed(self, names: Names, mapping: ast.expr | None) -> Names:
        literal = self._literal(mapping)
        if not isinstance(literal, ast.Dict):
            return names if mapping is None else _union(names, _UNKNOWN)
        pairs: dict[str, str] = {}
        for key, value in zip(literal.keys, literal.values, strict=True):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                old = key.value if isinstance(key, ast.Constant) else None
                pairs[old if isinstance(old, str) else value.value] = value.value
        kept = tuple(pairs.pop(name, name) for name in names)
        return _union(kept, tuple(pairs.values())) if OTHERS in names else _union(kept)

    def _literal(self, value: ast.expr | None) -> ast.expr | None:
        """The literal that a name stands for; another expression itself."""
        for _ in range(_MAX_HOPS):
            if not isinstance(value, ast.Name | ast.Attribute):
                break
            local = self._literals.get(value.id) if isinstance(value, ast.Name) else None
            value = local or self._constant(value)
        return value

    def _texts(self, value: ast.expr | None) -> Names:
        """The texts of a list, or the keys of a mapping, with `OTHERS` for what is computed."""
        self._left -= 1
        if self._left < 0:
            return _UNKNOWN
        match self._literal(value):
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return _union(*(self._texts(part) for part in parts))
            case ast.Starred(value=inner):
                return self._texts(inner)
            case ast.Dict(keys=keys):
                return _union(*(self._texts(key) for key in keys))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _union(self._texts(left), self._texts(right))
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
                return self._texts(inner)
            case ast.Call(func=ast.Attribute(value=table, attr="values"), args=[]):
                mapping = self._literal(table)
                if isinstance(mapping, ast.Dict):
                    return _union(*(self._texts(part) for part in mapping.values))
            case ast.Call(func=ast.Attribute(value=table, attr="keys" | "copy"), args=[]):
                return self._texts(table)
        return _UNKNOWN


def _column_of(target: ast.expr) -> tuple[str, str] | None:
    """The table and the column of `table["column"]`."""
    match target:
        case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(column))):
            return table, column
    return None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)
