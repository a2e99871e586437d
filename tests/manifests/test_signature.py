import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import ArgumentError, Scalar, Signature
from tests.support.tools import manifest

TYPES = ("string", "number", "integer", "boolean")
NAMES = ("a", "b", "c", "d")


ALL_TYPES = Signature(
    manifest(*({"name": n, "type": t} for n, t in zip(NAMES, TYPES, strict=True)))
)


@pytest.mark.parametrize(
    ("type_", "given_", "bound"),
    [
        ("string", "000001", "000001"),
        ("string", "平安银行", "平安银行"),
        ("string", 600519, "600519"),
        ("string", 1.5, "1.5"),
        ("string", 2.0, "2"),
        ("number", "10", 10),
        ("number", 1.0, 1),
        ("number", "2.5e-1", 0.25),
        ("integer", "007", 7),
        ("integer", 3.0, 3),
        ("integer", -(2**53 - 1), -(2**53 - 1)),
        ("boolean", "TRUE", True),
        ("boolean", False, False),
    ],
)
def test_lossless_spellings_are_accepted(type_: str, given_: object, bound: Scalar) -> None:
    result = Signature(manifest({"name": "p", "type": type_})).bind({"p": given_})["p"]
    assert result == bound
    assert type(result) is type(bound)


@pytest.mark.parametrize(
    ("type_", "given_", "complaint"),
    [
        ("string", True, "is a boolean"),
        ("string", ["a"], "is an array"),
        ("string", {"a": 1}, "is an object"),
        ("string", "\ud800", "surrogate"),
        ("number", "ten", "'ten' is no number"),
        ("number", math.nan, "no finite number"),
        ("number", "1e999", "no finite number"),
        ("number", True, "is a boolean"),
        ("integer", 1.5, "1.5 is no whole number"),
        ("integer", 2**53, r"beyond 2\^53"),
        ("integer", "9" * 40, r"beyond 2\^53"),
        ("boolean", 1, "is a number"),
        ("boolean", "yes", "'yes' is no boolean"),
    ],
)
def test_what_would_need_a_guess_is_refused(type_: str, given_: object, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        Signature(manifest({"name": "p", "type": type_})).bind({"p": given_})


def test_every_problem_is_reported_with_what_is_allowed() -> None:
    signature = Signature(
        manifest(
            {"name": "symbol", "type": "string", "required": True, "example": "x"},
            {"name": "period", "type": "string", "enum": ["daily", "weekly"]},
        )
    )
    with pytest.raises(ArgumentError) as caught:
        signature.bind({"period": "hourly", "sym": "600519"})
    assert [(p.argument, p.problem, p.expected) for p in caught.value.problems] == [
        ("symbol", "is missing", "expected string"),
        ("period", "'hourly' is not allowed", "expected string, one of 'daily', 'weekly'"),
        ("sym", "is no argument of this tool", "allowed: symbol, period"),
    ]


def test_null_means_not_given_and_defaults_fill_in() -> None:
    signature = Signature(manifest({"name": "p", "type": "string", "default": "daily"}))
    assert signature.bind({}) == signature.bind({"p": None}) == signature.bind({"p": "daily"})


def test_only_the_gateway_sets_credentials_and_deadlines() -> None:
    signature = Signature(
        manifest(
            {"name": "api_key", "type": "string", "filled_by": "credential", "required": True},
            {"name": "timeout", "type": "number", "filled_by": "deadline"},
            {"name": "old", "type": "string", "withdrawn": "gone since 1.19"},
        )
    )
    assert signature.bind({}) == {}
    for name in ("api_key", "timeout"):
        with pytest.raises(ArgumentError, match=f"{name}: is set by the gateway, leave it out"):
            signature.bind({name: "mine"})
    with pytest.raises(ArgumentError, match=r"old: is no longer taken.*gone since 1\.19"):
        signature.bind({"old": "x"})


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_a_path_argument_is_never_a_dot_segment(segment: str) -> None:
    part = {"name": "id", "type": "string", "required": True, "example": "x"}
    with pytest.raises(ArgumentError, match="no path segment"):
        Signature(manifest(part, path="/coin/{id}")).bind({"id": segment})


scalars = st.one_of(
    st.text(max_size=20),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.booleans(),
    st.none(),
)


@given(st.dictionaries(st.sampled_from(NAMES), scalars))
def test_bound_twice_is_bound_once(arguments: dict[str, Any]) -> None:
    try:
        bound = ALL_TYPES.bind(arguments)
    except ArgumentError:
        return
    assert ALL_TYPES.bind(bound) == bound


@given(st.permutations([("a", "x"), ("b", 1), ("c", 2), ("d", True)]))
def test_order_does_not_matter(pairs: list[tuple[str, Scalar]]) -> None:
    bound = ALL_TYPES.bind(dict(pairs))
    assert list(bound.items()) == [("a", "x"), ("b", 1), ("c", 2), ("d", True)]


@given(st.integers(-(10**15), 10**15))
def test_every_spelling_of_a_whole_number_is_one_value(number: int) -> None:
    spellings = (number, str(number), float(number), f"{number}.0")
    assert {ALL_TYPES.bind({"c": spelling})["c"] for spelling in spellings} == {number}


@given(st.dictionaries(st.text(max_size=8), scalars | st.lists(scalars)))
def test_bind_refuses_or_binds_and_never_breaks(arguments: dict[str, Any]) -> None:
    try:
        bound = ALL_TYPES.bind(arguments)
    except ArgumentError:
        return
    assert set(bound) <= set(NAMES)
