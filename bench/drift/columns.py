"""The columns that a function's code gives its table, as far as the code names them literally.

Followed are assignments to `.columns`, `rename(columns={...})`, selections `table[[...]]`, new and
dropped columns, and frames made with literal columns: per variable, through branches and loops, up
to what is returned. A later selection replaces what was set before it. Names that come from an
answer are not in the code, so a function may set fewer columns than it returns.
"""

import ast
from collections.abc import Callable, Iterable
from itertools import chain

from bench.drift.package import FunctionNode

Names = tuple[str, ...]
State = dict[str, Names]
Called = Callable[[ast.expr], Names]


def columns_set(function: FunctionNode, called: Called) -> Names:
    """The columns of what `function` returns, in order. `called` gives those of what another
    function of the package returns, from the expression that names it.

    Raises `RecursionError` if the code is nested too deeply.
    """
    flow = _Flow(called)
    flow.block(function.body, {})
    return tuple(name for name in flow.returned if name.strip(" -_"))  # `-` and `_`: not wanted


def _union(several: Iterable[Names]) -> Names:
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
            merged[name] = names if known is None or known == names else _union((known, names))
    return merged


class _Flow:
    def __init__(self, called: Called) -> None:
        self._called = called
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
                if statement.value is not None:
                    self.returned = _union((self.returned, self._names(statement.value, state)))
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
                return self._try(statement, state)
            case ast.Match():
                ends = [self.block(case.body, {**state}) for case in statement.cases]
                return _merged(*ends, state)
        return state

    def _try(self, statement: ast.Try, state: State) -> State | None:
        before = {**state}
        after = self.block([*statement.body, *statement.orelse], state)
        handled = [self.block(handler.body, {**before}) for handler in statement.handlers]
        merged = _merged(after, *handled)
        if not statement.finalbody:
            return merged
        ended = self.block(statement.finalbody, before if merged is None else merged)
        return None if merged is None else ended

    def _assign(self, target: ast.expr, value: ast.expr, state: State) -> None:
        if isinstance(target, ast.Name):
            if names := self._names(value, state):
                state[target.id] = names
            else:
                state.pop(target.id, None)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            if target.attr == "columns":
                if names := _literals(value):
                    state[target.value.id] = names
                else:
                    state.pop(target.value.id, None)
        elif (place := _column_of(target)) is not None:
            table, column = place
            state[table] = _union((state.get(table, ()), (column,)))

    def _in_place(self, call: ast.Call, state: State) -> None:
        function = call.func
        if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
            return
        table = function.value.id
        if function.attr in ("append", "extend"):
            rows = (_keys(value) or self._names(value, state) for value in call.args)
            state[table] = _union((state.get(table, ()), *rows))
        elif function.attr == "insert":
            column = call.args[1] if len(call.args) > 1 else _keyword(call, "column")
            state[table] = _union((state.get(table, ()), _literals(column)))
        elif function.attr in ("rename", "drop", "set_axis") and _keyword(call, "inplace"):
            state[table] = self._names(call, state)

    def _names(self, value: ast.expr | None, state: State) -> Names:
        """The columns of what an expression gives, if it is a table."""
        match value:
            case ast.Name():
                return state.get(value.id, ())
            case ast.Subscript():
                if isinstance(value.slice, ast.List):
                    return _literals(value.slice) or self._names(value.value, state)
                is_column = isinstance(value.slice, ast.Constant)
                return () if is_column else self._names(value.value, state)
            case ast.Attribute(attr="loc" | "iloc" | "T"):
                return self._names(value.value, state)
            case ast.Call():
                return self._call(value, state)
            case ast.List() | ast.Tuple():
                return _union(self._names(element, state) for element in value.elts)
            case ast.Dict():
                return _union(self._names(element, state) for element in value.values)
            case ast.IfExp():
                return _union((self._names(value.body, state), self._names(value.orelse, state)))
            case ast.BoolOp():
                return _union(self._names(element, state) for element in value.values)
        return ()

    def _call(self, call: ast.Call, state: State) -> Names:
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        given = call.args[0] if call.args else _keyword(call, "data")
        if "DataFrame" in (method, getattr(call.func, "id", "")):
            if names := _literals(_keyword(call, "columns")):
                return names
            return _keys(given) or self._names(given, state)
        if method in ("concat", "merge"):
            parts = (self._names(argument, state) for argument in call.args)
            named = (self._names(_keyword(call, key), state) for key in ("objs", "left", "right"))
            return _union((self._receiver(call, state), *parts, *named))
        if isinstance(call.func, ast.Name) or not (names := self._receiver(call, state)):
            return self._called(call.func)
        if method == "rename":
            return _renamed(names, _keyword(call, "columns"))
        if method == "drop":
            dropped = _literals(_keyword(call, "columns")) or _literals(given)
            return tuple(name for name in names if name not in dropped)
        if method == "set_axis":
            return _literals(given) or names
        if method == "join":
            return _union((names, *(self._names(argument, state) for argument in call.args)))
        return names

    def _receiver(self, call: ast.Call, state: State) -> Names:
        if not isinstance(call.func, ast.Attribute):
            return ()
        if call.func.attr == "rename":  # what it sets counts also if the table is unknown
            known = self._names(call.func.value, state)
            return known or _renamed((), _keyword(call, "columns"))
        return self._names(call.func.value, state)


def _renamed(names: Names, mapping: ast.expr | None) -> Names:
    if not isinstance(mapping, ast.Dict):
        return names
    pairs: dict[str, str] = {}
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            old = key.value if isinstance(key, ast.Constant) else None
            pairs[old if isinstance(old, str) else value.value] = value.value
    kept = tuple(pairs.pop(name, name) for name in names)
    return _union((kept, tuple(pairs.values())))


def _column_of(target: ast.expr) -> tuple[str, str] | None:
    """The table and the column of `table["column"]`."""
    match target:
        case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(column))):
            return table, column
    return None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _literals(value: ast.expr | None) -> Names:
    """The texts of a literal list, or a single text; nothing if any part is computed."""
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    values = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    texts = tuple(text for text in values if isinstance(text, str))
    return texts if len(texts) == len(values) else ()


def _keys(value: ast.expr | None) -> Names:
    """The texts that are keys of a literal mapping."""
    if not isinstance(value, ast.Dict):
        return ()
    keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
    return tuple(key for key in keys if isinstance(key, str))
