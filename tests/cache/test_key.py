from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cache import call_key, key_prefix

arguments = st.dictionaries(
    st.text(max_size=5),
    st.text(max_size=8) | st.integers(-(2**53), 2**53) | st.booleans(),
    max_size=4,
)


@given(arguments, arguments)
def test_keys_are_equal_exactly_when_calls_are(one: dict[str, Any], two: dict[str, Any]) -> None:
    prefix = key_prefix("tool", "1")
    same = [(k, type(v), v) for k, v in one.items()] == [(k, type(v), v) for k, v in two.items()]
    assert (call_key(prefix, one) == call_key(prefix, two)) == same


def test_tool_and_revision_are_part_of_the_key() -> None:
    prefixes = {key_prefix(t, r) for t, r in (("a", "1"), ("a", "2"), ("b", "1"), ("a1", ""))}
    assert len({call_key(prefix, {}) for prefix in prefixes}) == 4
