"""Drawings: round ticks, places on scales, and texts of others that stay texts."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.common import drawing as d

EVIL = "</text><script>&\x1b\u202e"


@pytest.mark.parametrize(
    ("low", "high", "most", "least", "texts"),
    [
        (0, 6.1, 4, 0, ["0", "2", "4", "6"]),
        (0.0, 32.0, 4, 1, ["0", "10", "20", "30"]),
        (0, 2, 4, 1, ["0", "1", "2"]),
        (-0.21, 0.01, 4, 0, ["-0.2", "-0.1", "0.0"]),
        (0.98, 1.03, 5, 0, ["0.98", "0.99", "1.00", "1.01", "1.02", "1.03"]),
        (0, 23_000, 4, 0, ["0", "10,000", "20,000"]),
        (3, 3, 4, 0, ["3"]),
    ],
)
def test_ticks_are_round(
    low: float, high: float, most: int, least: float, texts: list[str]
) -> None:
    assert [*d.Scale(low, high, 0, 100).ticks(most, least=least).values()] == texts


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9))
def test_ticks_lie_on_the_scale_and_are_few(low: float, span: float) -> None:
    scale = d.Scale(low, low + span, 0, 100)
    ticks = scale.ticks(5)
    assert len(ticks) <= 7
    assert all(-1 <= scale(value) <= 101 for value in ticks)


def test_a_value_has_its_place_on_a_scale_of_either_kind() -> None:
    assert [d.Scale(0, 4, 100, 0)(value) for value in (0, 1, 4)] == [100, 75, 0]
    assert [d.Scale(1, 100, 0, 10, is_log=True)(value) for value in (1, 10, 100)] == [0, 5, 10]
    assert d.stairs([0, 5, 9], [1, 2]) == [(0, 1), (5, 1), (5, 2), (9, 2)]


def test_no_text_becomes_markup_and_a_long_name_is_cut() -> None:
    width, parts = d.names([EVIL, "x" * 500], 0, 20, 120)
    _, marks = d.legend({EVIL: lambda at: d.mark(at, "ink", fill="none")}, (0, 0), 100)
    said = str(d.drawing([*parts, *marks, d.text((0, 0), EVIL)], 100, 50, EVIL, d.style()))
    root = ElementTree.fromstring(said)  # noqa: S314 - ours
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "style", "text", "path"}
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert width <= 130
