"""Keys, through binding: equal calls have equal keys however written, others have others."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.bind import Binder, InvalidCall
from manifests import Catalog, Manifest, Parameter, Signature

CATALOG = Catalog.load()
TOOLS = [m for m in CATALOG if not m.unavailable]


def spellings(parameter: Parameter, value: Any) -> list[Any]:
    """Ways in which callers write `value`."""
    found = [value]
    if isinstance(value, bool):
        found += [str(value), str(value).lower()]
    elif isinstance(value, int | float):
        found += [str(value)]
        found += [float(value)] if isinstance(value, int) and abs(value) < 2**53 else []
    elif parameter.format == "yyyymmdd" and len(value) == 8 and value.isdecimal():
        dashed = f"{value[:4]}-{value[4:6]}-{value[6:]}"
        found += [dashed, f"{dashed}T00:00:00", int(value)]
    return found


def canonical(tool: Manifest) -> dict[str, Any]:
    """Every argument that an agent may give, with a value that is allowed."""
    given = {
        p.name: p.example if p.example is not None else p.default
        for p in tool.parameters
        if p.filled_by == "agent" and p.withdrawn is None
    }
    given = {name: value for name, value in given.items() if value is not None}
    return dict(Signature(tool).bind(given))


@given(st.sampled_from(TOOLS), st.data())
def test_order_spelling_and_defaults_do_not_change_a_key(
    tool: Manifest, draw: st.DataObject
) -> None:
    arguments = canonical(tool)
    key = Binder(CATALOG).bind(tool.name, arguments).key
    parameters = {p.name: p for p in tool.parameters}
    written = {
        name: draw.draw(st.sampled_from(spellings(parameters[name], value)))
        for name, value in arguments.items()
        if value != parameters[name].filling or draw.draw(st.booleans())
    }
    shuffled = dict(draw.draw(st.permutations(list(written.items()))))
    binder = Binder(CATALOG)
    assert binder.bind(tool.name, shuffled).key == key
    assert binder.bind(tool.name, orjson.dumps(shuffled)).key == key


@given(st.sampled_from(TOOLS), st.sampled_from(TOOLS), st.data())
def test_another_tool_or_another_value_has_another_key(
    tool: Manifest, other: Manifest, draw: st.DataObject
) -> None:
    binder, arguments = Binder(CATALOG), canonical(tool)
    key = binder.bind(tool.name, arguments).key
    if other is not tool:
        assert binder.bind(other.name, canonical(other)).key != key
    if not arguments:
        return
    name = draw.draw(st.sampled_from(sorted(arguments)))
    value = arguments[name]
    changed = not value if isinstance(value, bool) else value + 1 if value != str(value) else "1"
    try:
        bound = binder.bind(tool.name, {**arguments, name: changed})
    except InvalidCall:
        return
    assert (bound.key == key) == (bound.arguments == arguments)


@pytest.mark.parametrize("tool", ["get_coin", "stock_zh_a_hist"])
def test_no_clock_is_in_a_key(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = CATALOG.get(tool)
    assert manifest is not None
    keys = set()
    for now in (0.0, 1e9, 2e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        keys.add(Binder(CATALOG).bind(tool, manifest.sample()).key)
    assert len(keys) == 1
