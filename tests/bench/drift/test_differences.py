"""What is found between two releases, for each kind of change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.drift.differences import differences
from bench.drift.functions import read_functions
from tests.support.wheels import make_wheel, one_module

Change = tuple[str, str, str | None, Any, Any]


@pytest.fixture
def between(tmp_path: Path) -> Any:
    """The changes of a function `quote` between two texts of its module."""

    def found(old: str, new: str) -> list[Change]:
        wheels = [
            one_module(tmp_path, f"1.0.{number}", code, "quote")
            for number, code in enumerate((old, new))
        ]
        before, after = map(read_functions, wheels)
        assert (before.unread, after.unread) == ({}, {})
        return [(f.level, f.check, f.column, f.before, f.after) for f in differences(before, after)]

    return found


def function(parameters: str = "", body: str = "return 1") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"import pandas as pd\n\ndef quote({parameters}):\n{lines}\n"


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("a='1', b=2", "a='1'", [("ERR", "parameter_removed", "b", "2", None)]),
        ("a='1'", "a='1', b=2", [("INFO", "parameter_added", "b", None, "2")]),
        ("a='1'", "b, a='1'", [("ERR", "parameter_added", "b", None, None)]),
        ("stock, b=2", "symbol, b=2", [("ERR", "parameter_renamed", "stock", "stock", "symbol")]),
        ("a, b", "b, a", [("WARN", "parameters_reordered", None, ["a", "b"], ["b", "a"])]),
        ("a='1'", "a='2'", [("WARN", "default_changed", "a", "'1'", "'2'")]),
        ("a='1'", "a", [("ERR", "default_changed", "a", "'1'", None)]),
        ("a", "a='1'", [("INFO", "default_changed", "a", None, "'1'")]),
        ("a, *, b=1", "a, *, b=1", []),
        ("a, **more", "a", [("ERR", "parameter_removed", "more", "{}", None)]),
        ("a: str = '1'", "a: 'str | None' = '1'", []),
        (
            "stock='1', b=2",
            "symbol='3', b=2",
            [
                ("ERR", "parameter_renamed", "stock", "stock", "symbol"),
                ("WARN", "default_changed", "symbol", "'1'", "'3'"),
            ],
        ),
    ],
)
def test_parameters(between: Any, old: str, new: str, changes: list[Change]) -> None:
    assert between(function(old), function(new)) == changes


def looked_up(*values: str) -> str:
    table = ", ".join(f"{value!r}: 1" for value in values)
    return function("kind='a'", f"table = {{{table}}}\nreturn table[kind]")


def documented(text: str) -> str:
    return function("kind='a'", f'"""\nQuotes.\n:param kind: {text}\n:type kind: str\n"""')


def annotated(*values: str) -> str:
    return "from typing import Literal\n" + function(f"kind: Literal{list(values)} = 'a'")


@pytest.mark.parametrize(
    ("stated", "old", "new", "level"),
    [
        (looked_up, "ab", "ac", "ERR"),
        (looked_up, "ab", "abc", "INFO"),
        (looked_up, "ab", "ba", None),
        (annotated, "ab", "a", "ERR"),
    ],
)
def test_values_that_the_code_states(
    between: Any, stated: Callable[..., str], old: str, new: str, level: str | None
) -> None:
    expected = [(level, "values_changed", "kind", [*old], [*new])] if level else []
    assert between(stated(*old), stated(*new)) == expected


def test_values_of_the_documentation(between: Any) -> None:
    old, new = documented('choice of {"a", "b"}; or more'), documented("choice of {'a': 'of b'}")
    checks = {change[1]: change for change in between(old, new)}
    assert checks["values_changed"] == ("WARN", "values_changed", "kind", ["a", "b"], ["a"])
    assert checks["documentation_changed"][0] == "INFO"


def test_values_are_compared_by_the_surest_statement_of_both(between: Any) -> None:
    old = function("kind='a'", 'table = {"a": 1, "b": 2}\nreturn table[kind]')
    new = function("kind='a'", '""":param kind: choice of {"a"}"""\nreturn kind')
    assert [change[1] for change in between(old, new)] == ["documentation_changed"]


@pytest.mark.parametrize(
    "body",
    [
        "t.columns = ['a', '-', 'x', '_']",
        "t = t[['a', 'x']]",
        "t = t.loc[:, ['a', 'x']]",
        "t.columns = ['p', 'q', 'x']\nt = t.rename(columns={'p': 'a'})\ndel t['q']",
        "t = pd.DataFrame(answer, columns=['a', 'x'])",
        "t = pd.DataFrame({'a': one, 'x': two})",
        "t = t[['a']]\nt['x'] = 1",
        "t = t[['a']]\nt.insert(0, 'x', 1)",
        "names = ['a', 'x']\nt = t[names]",
        "names = {'p': 'a', 'q': 'x'}\nt = t[list(names.values())]",
        "t = t[['a', 'x', 'y']]\nt = t.drop(columns=['y'])",
        "frames = []\nfor p in pages:\n    t = t[['a', 'x']]\n    frames.append(t)\n"
        "t = pd.concat(frames, ignore_index=True)",
        "if symbol:\n    t = t[['a']]\nelse:\n    t = t[['x']]",
        "if symbol:\n    t = t[['a', 'x']]\n    return t\nraise ValueError",
        "try:\n    t = t[['a', 'x']]\nexcept ValueError:\n    return pd.DataFrame()",
        "with lock:\n    t = t[['a', 'x']].reset_index(drop=True)",
        "t = helper()",
        "t = t[NAMES]",
    ],
)
def test_columns_that_the_code_sets(between: Any, body: str) -> None:
    helpers = "NAMES = ['a', 'x']\ndef helper():\n    return pd.DataFrame(columns=NAMES)\n"
    code = helpers + function("symbol=1", f"t = pd.DataFrame(answer)\n{body}\nreturn t")
    only_a = function("symbol=1", "t = pd.DataFrame(answer)\nt = t[['a']]\nreturn t")
    assert between(code, only_a) == [("ERR", "column_removed", "x", "x", None)]
    assert between(only_a, code) == [("INFO", "column_added", "x", None, "x")]


def test_a_column_is_gone_only_perhaps_if_the_code_does_not_name_all(between: Any) -> None:
    old = function("", "t = t[['a', 'x']]\nreturn t")
    new = function("", "t = pd.DataFrame(answer)\nt['a'] = 1\nreturn t")
    assert between(old, new) == [("WARN", "column_removed", "x", "x", None)]
    none = function("", "return pd.DataFrame(answer)")
    assert between(old, none) == [("WARN", "columns_unnamed", None, ["a", "x"], None)]


def test_hosts_of_what_the_function_uses(between: Any) -> None:
    helper = 'URL = "https://{}/a"\ndef ask():\n    return get("{}")\n'
    old = helper.format("one.example.com", "http://two.example.com:80/x")
    body = '"""https://page.example.com"""\nreturn get(URL, ask(), {"Referer": "https://r.org"})'
    new = old.replace("two", "three")
    (change,) = between(old + function("", body), new + function("", body))
    hosts = ["one.example.com", "two.example.com"], ["one.example.com", "three.example.com"]
    assert change == ("WARN", "host_changed", None, *hosts)


def test_documentation(between: Any) -> None:
    old, new = (function("", f'"""Quotes of\n  the {day}."""') for day in ("day", "week"))
    changed = ("INFO", "documentation_changed", None, "day.", "week.")
    assert between(old, new) == [changed]
    assert between(old, function("", '"""Quotes   of the day."""')) == []


def test_functions_gone_and_new_but_not_moved(tmp_path: Path) -> None:
    code = "def kept(): ...\n"
    old = make_wheel(
        tmp_path,
        "1.0.0",
        {
            "__init__.py": "from akshare.one import kept\nfrom akshare.one import gone as left\n",
            "one.py": code + "def gone(): ...\n",
        },
    )
    new = make_wheel(
        tmp_path,
        "1.0.1",
        {
            "__init__.py": "from .two import kept, hidden, hidden as shown\n",
            "two/__init__.py": "from akshare.two.deep import kept\ndef hidden(): ...\n_own = kept",
            "two/deep.py": code + "class Error(Exception): ...\n",
        },
    )
    found = differences(read_functions(old), read_functions(new))
    removed = ("function_removed", "left")
    added = [("function_added", "hidden"), ("function_added", "shown")]
    assert [(f.check, f.tool) for f in found] == [added[0], removed, added[1]]


def test_another_name_of_a_function_is_one_and_a_class_is_none(tmp_path: Path) -> None:
    code = "def plain(a=1): ...\nalias = plain\nclass Client: ...\nLIMIT = 3\n"
    names = ("plain", "alias", "Client", "LIMIT")
    functions = read_functions(one_module(tmp_path, "1.0.0", code, *names)).functions
    assert sorted(functions) == ["alias", "plain"]
    parameters = {f.parameters[0].name for f in functions.values() if f is not None}
    assert parameters == {"a"}


def test_an_id_depends_on_check_tool_and_column_alone(tmp_path: Path) -> None:
    wheels = [
        read_functions(one_module(tmp_path, f"1.0.{n}", function(f"a={n}, b={n}"), "quote"))
        for n in range(3)
    ]
    first, second = (differences(wheels[n], wheels[n + 1]) for n in range(2))
    assert [f.id for f in first] == [f.id for f in second]
    assert len({f.id for f in first}) == 2
