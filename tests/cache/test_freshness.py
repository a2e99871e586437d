"""The freshness table, every row at its borders, and every request directive. No clock, no disk."""

import contextlib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cache import CacheControl, CacheControlError, Rule, Use, decide, rule_of
from cache.freshness import ANYTHING, FRESHNESS
from manifests import FreshnessOverride, Timeliness

FRESH, REVALIDATE, STALE, IF_ERROR, FETCH, REFUSE = Use
S, M, H, D = 1.0, 60.0, 3_600.0, 86_400.0
AT = 1_700_000_000.0
MONDAY = 1_704_067_200.0  # 2024-01-01 00:00 UTC

# until when an answer is fresh, is returned while a newer one is fetched, and in place of an error
SPANS: dict[Timeliness, tuple[float, float, float]] = {
    "realtime": (15 * S, 30 * S, 15 * S + 5 * M),
    "weekly": (6 * H, 12 * H, 6 * H + 7 * D),
    "monthly": (1 * D, 2 * D, 15 * D),
    "as_filed": (6 * H, 12 * H, 6 * H + 3 * D),
    "periodic": (3 * D, 6 * D, 17 * D),
    "static": (14 * D, 28 * D, 74 * D),
}
MORNING, CLOSE, LATE = MONDAY + 8 * H, MONDAY + 10 * H, MONDAY + 22 * H
# recorded at, age, use: at each border the last moment before it and the first after it
BORDERS: dict[Timeliness, list[tuple[float, float, Use]]] = {
    name: [
        (AT, 0, FRESH),
        *((AT, fresh_s - 0.001, FRESH), (AT, fresh_s, REVALIDATE)),
        *((AT, stale_s - 0.001, REVALIDATE), (AT, stale_s, IF_ERROR)),
        *((AT, error_s - 0.001, IF_ERROR), (AT, error_s, FETCH)),
    ]
    for name, (fresh_s, stale_s, error_s) in SPANS.items()
}
BORDERS["daily"] = [
    *((MORNING, 2 * H - 1, FRESH), (MORNING, 2 * H, REVALIDATE)),
    *((MORNING, 3 * H - 1, REVALIDATE), (MORNING, 3 * H, IF_ERROR)),
    *((MORNING, 2 * H + 3 * D - 1, IF_ERROR), (MORNING, 2 * H + 3 * D, FETCH)),
    *((CLOSE, 0, FRESH), (CLOSE, 12 * H - 1, FRESH), (CLOSE, 12 * H, REVALIDATE)),
    *((LATE, 12 * H - 1, FRESH), (LATE, 12 * H, REVALIDATE)),
]


def test_every_class_has_a_row_and_every_row_is_tested() -> None:
    assert set(FRESHNESS) == set(BORDERS) == set(get_args(Timeliness))


@pytest.mark.parametrize(
    ("timeliness", "recorded_at", "age_s", "use"),
    [(name, *border) for name, borders in BORDERS.items() for border in borders],
)
def test_borders(timeliness: Timeliness, recorded_at: float, age_s: float, use: Use) -> None:
    assert decide(recorded_at, rule_of(timeliness), recorded_at + age_s) is use


@pytest.mark.parametrize(
    ("asked", "age_s", "use"),
    [
        # the rule: fresh for 100, while revalidating for 10 more, if error for 50
        ("max-age=30", 30, FRESH),
        ("max-age=30", 31, FETCH),
        ("max-age=300", 100, FETCH),  # a request can't make fresher, and asks for what is fresh
        ("max-age=30, max-stale=5", 35, STALE),
        ("max-age=30, max-stale=5", 36, FETCH),
        ("min-fresh=40", 60, FRESH),
        ("min-fresh=40", 61, FETCH),
        ("max-stale", 10_000, STALE),
        ("max-stale=20", 105, REVALIDATE),
        ("max-stale=20", 120, STALE),
        ("max-stale=20", 121, FETCH),
        ("max-stale=20, stale-if-error=50", 121, IF_ERROR),
        ("max-stale=0", 99, FRESH),
        ("max-stale=0", 101, FETCH),
        ("no-cache", 0, FETCH),
        ("no-cache, max-stale", 0, FETCH),
        ("no-cache, stale-if-error=200", 300, IF_ERROR),
        ("no-cache, stale-if-error=200", 301, FETCH),
        ("stale-if-error=0", 101, REVALIDATE),
        ("stale-if-error=0", 111, FETCH),
        ("stale-if-error=500", 600, IF_ERROR),
        ("max-age=30, stale-if-error=10", 31, IF_ERROR),
        ("only-if-cached", 99, FRESH),
        ("only-if-cached", 101, STALE),
        ("only-if-cached", 111, REFUSE),
        ("only-if-cached, max-age=30", 31, REFUSE),
        ("no-store", 101, STALE),  # what a refresh fetched could not be kept
        ("no-store", 99, FRESH),
        ("", 99, FRESH),
        ("max-age=0, stale-if-error=0", 50, FETCH),
        ("no-cache, stale-if-error=0", 0, FETCH),
        ("max-age=30, max-age=30", 31, FETCH),  # as when two on the way say the same
        ("no-cache, NO-CACHE,, ,", 0, FETCH),
        ("max-age=99999999999999999999", 99, FRESH),
        ('private="a, max-age=x", max-age=30', 31, FETCH),
        ('MAX-AGE="30", no-transform, private', 31, FETCH),
        ("no-cache, no-store, must-revalidate, max-age=0", 0, FETCH),  # as much code sends it
        ("private, no-store, pre-check=0, post-check=0, proxy-revalidate, s-maxage=0", 99, FRESH),
    ],
)
def test_request_directives(asked: str, age_s: float, use: Use) -> None:
    rule = Rule(100.0, 10.0, 50.0)
    assert decide(AT, rule, AT + age_s, CacheControl.parse(asked)) is use


def test_a_call_without_an_answer_is_fetched_unless_the_caller_accepts_no_other() -> None:
    rule = Rule(100.0, 10.0, 50.0)
    assert decide(None, rule, AT) is FETCH
    assert decide(None, rule, AT, CacheControl(only_if_cached=True)) is REFUSE


def test_while_upstream_rests_a_stale_answer_is_returned_to_whoever_demands_no_other() -> None:
    rule = Rule(100.0, 10.0, 50.0)
    for age_s in (105, 140):
        assert decide(AT, rule, AT + age_s, rests=True) is STALE
    assert decide(AT, rule, AT + 151, rests=True) is FETCH
    demanding = CacheControl(no_cache=True, stale_if_error_s=100.0)
    assert decide(AT, rule, AT + 140, demanding, rests=True) is IF_ERROR


def test_an_answer_from_the_future_is_not_believed() -> None:
    assert decide(AT + 60, rule_of("static"), AT) is FRESH, "clocks differ a little"
    assert decide(AT + 61, rule_of("static"), AT) is FETCH


@pytest.mark.parametrize(
    "header", ["max-age", "max-age=", "max-age=-1", "max-age=1.5", "min-fresh=x", "max-stale=1e9"]
)
def test_a_directive_that_cannot_be_read_is_named(header: str) -> None:
    with pytest.raises(CacheControlError, match=header.partition("=")[0]):
        CacheControl.parse(header)


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("no_cache", "'no_cache' is no directive of requests; did you mean no-cache?"),
        ("nocache", "; did you mean no-cache?"),
        ("max-age=5, max_stale=3", "; did you mean max-stale?"),
        ("only-if-cache", "; did you mean only-if-cached?"),
        ("zzz=1", "Cache-Control: 'zzz' is no directive of requests"),
        ("no-cache=true", "no-cache takes no value"),
        ("max-age=inf", "max-age needs whole seconds"),
        ("max-age=5, max-age=60", "max-age stands there with two values"),
        ("max-stale, max-stale=60", "max-stale stands there with two values"),
        ("max-age 60", "'max-age 60' can't be read"),
        ("no-cache; no-store", "'no-cache; no-store' can't be read"),
        ("no-cache no-store", "'no-cache no-store' can't be read"),
        ('max-age="60', "can't be read"),
        ("=5", "'=5' can't be read"),
    ],
)
def test_what_asks_for_nothing_or_for_two_things_is_an_error(header: str, told: str) -> None:
    with pytest.raises(CacheControlError) as caught:
        CacheControl.parse(header)
    assert told in str(caught.value)


@given(st.text(alphabet='max-ge0=", \\;no', max_size=40))
def test_any_header_is_read_or_refused(header: str) -> None:
    with contextlib.suppress(CacheControlError):
        CacheControl.parse(header)


def test_in_python_negative_seconds_are_refused() -> None:
    with pytest.raises(CacheControlError, match="max_age_s must be 0 or more"):
        CacheControl(max_age_s=-1)


def test_a_manifest_may_say_otherwise() -> None:
    realtime, daily = FRESHNESS["realtime"], FRESHNESS["daily"]
    faster = rule_of("realtime", FreshnessOverride(fresh_s=1.0))
    assert faster == Rule(1.0, realtime.stale_while_revalidate_s, realtime.stale_if_error_s)
    assert rule_of("daily", FreshnessOverride(fresh_s=60.0)).fresh_until(AT) == AT + 60
    at_noon = rule_of("daily", FreshnessOverride(updates_utc=("12:30",), stale_if_error_s=0.0))
    assert at_noon.fresh_until(MONDAY) == MONDAY + 12.5 * H
    assert at_noon.fresh_until(MONDAY + 12.5 * H) == MONDAY + D + 12.5 * H
    assert at_noon.stale_while_revalidate_s == daily.stale_while_revalidate_s
    for nonsense in ({"fresh_s": -1.0}, {"updates_utc": ("24:00",)}, {"updates_utc": ()}):
        with pytest.raises(ValidationError):
            FreshnessOverride.model_validate(nonsense)
    with pytest.raises(ValidationError, match="not both"):
        FreshnessOverride(fresh_s=1.0, updates_utc=("12:30",))


@given(st.sampled_from(sorted(FRESHNESS)), st.integers(0, 2**32), st.integers(0, 10**8))
def test_nothing_gets_better_with_age_and_fresh_until_agrees(
    timeliness: Timeliness, recorded_at: int, age_s: int
) -> None:
    rule, order = rule_of(timeliness), list(Use)
    now = recorded_at + age_s
    use = decide(recorded_at, rule, now)
    assert (use is FRESH) == (now < rule.fresh_until(recorded_at))
    assert rule.fresh_until(recorded_at) > recorded_at
    assert rule.fresh_until(recorded_at) - recorded_at <= rule.fresh_s
    later = decide(recorded_at, rule, now + 3_600)
    assert order.index(later) >= order.index(use)
    if use is not FETCH:
        assert age_s <= rule.keep_s, "a tier keeps what may still be used"


seconds = st.none() | st.integers(0, 10_000).map(float)
controls = st.builds(
    CacheControl, seconds, seconds, seconds, seconds, *(st.booleans() for _ in range(3))
)


@given(controls, st.integers(0, 1_000))
def test_a_caller_never_gets_what_it_did_not_allow(asked: CacheControl, age_s: int) -> None:
    use = decide(AT, Rule(100.0, 10.0, 50.0), AT + age_s, asked)
    plain = decide(AT, Rule(100.0, 10.0, 50.0), AT + age_s, ANYTHING)
    if use is FRESH:
        assert plain is FRESH
        assert age_s <= (asked.max_age_s if asked.max_age_s is not None else age_s)
        assert age_s + (asked.min_fresh_s or 0) <= 100
    if asked.no_cache:
        assert use in (IF_ERROR, FETCH, REFUSE)
    if asked.only_if_cached:
        assert use in (FRESH, STALE, REFUSE)
