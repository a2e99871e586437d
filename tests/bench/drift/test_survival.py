"""Survival curves, against figures worked out by hand."""

from math import exp, log, sqrt

import pytest

from bench.drift.survival import survival

# Six things: ends at 1, 2 and 4; censored at 2, 3 and 4.
#   t=1: 6 at risk, 1 ends: S = 5/6,              V/S^2 = 1/(6*5)            = 0.033333
#   t=2: 5 at risk, 1 ends: S = 5/6 * 4/5 = 2/3,  V/S^2 = 1/30 + 1/(5*4)     = 0.083333
#   t=4: 2 at risk, 1 ends: S = 2/3 * 1/2 = 1/3,  V/S^2 = 1/12 + 1/(2*1)     = 0.583333
SIX = [(1, True), (2, True), (2, False), (3, False), (4, True), (4, False)]


EXACT = 1e-6
"""Figures are rounded to so much."""


def test_the_estimate_and_its_error_are_those_worked_out_by_hand() -> None:
    steps = survival(SIX)
    found = [(step["time"], step["at_risk"], step["ended"]) for step in steps]
    assert found == [(1, 6, 1), (2, 5, 1), (4, 2, 1)]
    assert [step["survival"] for step in steps] == pytest.approx([5 / 6, 2 / 3, 1 / 3], abs=EXACT)
    errors = [5 / 6 * sqrt(1 / 30), 2 / 3 * sqrt(1 / 12), 1 / 3 * sqrt(7 / 12)]
    assert [step["error"] for step in steps] == pytest.approx(errors, abs=EXACT)


def test_the_interval_is_symmetric_for_the_logarithm_of_minus_the_logarithm() -> None:
    *_, last = survival(SIX)
    reach = 1.959963984540054 * sqrt(7 / 12) / log(3)
    assert last["interval"] == pytest.approx((3 ** -exp(reach), 3 ** -exp(-reach)), abs=EXACT)
    assert last["interval"] == pytest.approx((0.013685, 0.754844), abs=EXACT)


def test_nothing_that_ends_gives_no_step() -> None:
    assert survival([(5, False)] * 3) == survival([]) == []


def test_once_nothing_is_left_there_is_no_interval() -> None:
    *_, last = survival([(1, True), (2, True)])
    assert (last["survival"], last["error"], last["interval"]) == (0, None, None)
