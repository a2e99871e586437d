"""The layered memory: decay, moves between layers and feedback, with numbers worked out by hand."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from math import exp
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.market import memory as memory_module
from adapters.market.memory import Evidence, LayeredMemory, LayerName, Memory
from adapters.market.similarity import Bm25

FIRST = date(2020, 7, 1)
NAMES: tuple[LayerName, ...] = get_args(LayerName)


def same(_query: str, texts: Sequence[str]) -> list[float]:
    return [0.0] * len(texts)


def only(memory: LayeredMemory) -> Memory:
    [found] = memory.memories
    return found


def test_news_that_paid_rises_to_mid_and_falls_back() -> None:
    memory = LayeredMemory()
    news = memory.add("short", "orders rise", FIRST)
    memory.step()
    assert only(memory).importance == pytest.approx(46)
    assert only(memory).age == 1
    memory.feed_back([news], 2.5)
    assert only(memory).importance == pytest.approx(64)
    memory.step()  # 64 * 0.92 = 58.88 is at least 55: up, and young again
    assert (only(memory).layer, only(memory).age) == ("mid", 0)
    assert only(memory).importance == pytest.approx(58.88)
    memory.step()  # 58.88 * 0.96
    assert (only(memory).layer, only(memory).age) == ("mid", 1)
    assert only(memory).importance == pytest.approx(56.5248)
    memory.step()  # 56.5248 * 0.96 = 54.2638 is below 55: down, as old as before
    assert (only(memory).layer, only(memory).age) == ("short", 2)
    assert only(memory).importance == pytest.approx(54.263808)
    assert only(memory).recency == pytest.approx(exp(-2 / 3))


def test_much_reward_lifts_news_to_long_at_once() -> None:
    memory = LayeredMemory()
    news = memory.add("short", "orders rise", FIRST)
    for _ in range(3):
        memory.feed_back([news], 1)
    memory.step()  # (50 + 3 * 18) * 0.92 = 95.68
    assert (only(memory).layer, only(memory).age) == ("long", 0)
    assert only(memory).importance == pytest.approx(95.68)
    memory.feed_back([news], -3)
    assert only(memory).importance == pytest.approx(77.68)


@pytest.mark.parametrize(
    ("layer", "demoted_on", "to", "gone_on"),
    [
        # exp(-9 / 3) = 0.0498; 50 * 0.92 ** 9 = 23.6
        ("short", None, None, 9),
        # 60 * 0.96 ** 3 = 53.08; then as above
        ("mid", 3, "short", 9),
        # 90 * 0.96 ** 2 = 82.94; 90 * 0.96 ** 13 = 52.94, then exp(-14 / 3) = 0.0094
        ("long", 2, "mid", 14),
        # 80 * 0.98 ** 138 = 4.92; exp(-138 / 365) = 0.685
        ("reflection", None, None, 138),
    ],
)
def test_an_unused_memory_fades(
    layer: LayerName, demoted_on: int | None, to: str | None, gone_on: int
) -> None:
    memory = LayeredMemory()
    memory.add(layer, "text", FIRST)
    moves: dict[int, str] = {}
    for day in range(1, gone_on):
        memory.step()
        if only(memory).layer != layer:
            moves.setdefault(day, only(memory).layer)
    memory.step()
    assert len(memory) == 0
    assert next(iter(moves.items()), (None, None)) == (demoted_on, to)


def test_feedback_counts_each_memory_once_and_passes_over_those_that_are_gone() -> None:
    memory = LayeredMemory()
    one, other = memory.add("short", "a", FIRST), memory.add("short", "b", FIRST)
    memory.feed_back([one, one, 99], 1)
    memory.feed_back([other], 0)
    assert [found.importance for found in memory.memories] == [68, 50]


def test_recall_sums_similarity_importance_and_recency() -> None:
    memory = LayeredMemory()
    old = memory.add("short", "old", FIRST)
    memory.feed_back([old], 1)  # 68
    memory.step()
    memory.feed_back([old], 1)  # in mid now: 62.56 + 18
    new = memory.add("mid", "new", FIRST)
    memory.step()

    def near(query: str, texts: Sequence[str]) -> list[float]:
        assert query == "what moved it?"
        return [0.25 if text == "new" else 0.0 for text in texts]

    found = memory.recall("what moved it?", near)
    assert {name: len(of) for name, of in found.items()} == {
        **dict.fromkeys(NAMES, 0),
        "mid": 2,
    }
    first, second = found["mid"]
    assert (first.memory.id, second.memory.id) == (new, old)
    # both have age 1 in mid
    assert first.score == pytest.approx(0.25 + 0.576 + exp(-1 / 90))
    assert second.score == pytest.approx(80.56 * 0.96 / 100 + exp(-1 / 90))
    assert first.memory.importance == pytest.approx(57.6)


def test_recall_gives_the_five_best_of_a_layer_and_importance_counts_up_to_100() -> None:
    memory = LayeredMemory()
    ids = [memory.add("short", f"text {n}", FIRST) for n in range(8)]
    for _ in range(4):
        memory.feed_back(ids[:2], 1)  # 122
    memory.feed_back(ids[:1], 1)  # 140
    found = memory.recall("", same)["short"]
    assert [one.memory.id for one in found] == [ids[1], ids[0], *reversed(ids[5:])]
    assert found[0].score == found[1].score == 2.0
    assert memory.recall("", same, top=1)["short"] == found[:1]


def test_a_full_layer_drops_what_is_worth_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MOST", 2)
    memory = LayeredMemory()
    first, second = memory.add("short", "a", FIRST), memory.add("short", "b", FIRST)
    memory.feed_back([first], 1)
    third = memory.add("short", "c", FIRST)  # as much worth as the second, but newer
    assert [found.id for found in memory.memories] == [first, third]
    memory.feed_back([second, third], 1)
    mid = [memory.add("mid", "d", FIRST) for _ in range(2)]
    memory.step()  # two come to mid with 62.56 and age 0; the others have 57.6 and age 1
    assert {found.id for found in memory.memories} == {first, third}
    assert not set(mid) & {found.id for found in memory.memories}


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(NAMES)),
        st.tuples(st.just("feed back"), st.tuples(st.integers(1, 20), st.integers(-1, 1))),
        st.tuples(st.just("step"), st.just(None)),
    ),
    max_size=60,
)


def act(memory: LayeredMemory, actions: list[tuple[str, Any]]) -> LayeredMemory:
    for action, value in actions:
        match action:
            case "add":
                memory.add(value, f"text {len(memory)}", FIRST)
            case "feed back":
                memory.feed_back([value[0]], value[1])
            case _:
                memory.step()
    return memory


@given(ACTIONS)
def test_no_layer_overflows_and_each_memory_has_the_importance_of_its_layer(
    actions: list[tuple[str, Any]],
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory_module, "MOST", 4)
        memory = act(LayeredMemory(), [*actions, ("step", None)])
    for found in memory.memories:
        assert found.importance >= 5
        if found.layer != "reflection":
            least = {"long": 85.0, "mid": 55.0, "short": 0.0}
            assert found.importance >= least[found.layer]
    assert max(Counter(found.layer for found in memory.memories).values(), default=0) <= 4


def test_the_reward_of_three_days_goes_to_what_the_first_position_rested_on() -> None:
    evidence = Evidence()
    assert evidence.add(100, 1, [1, 2]) is None
    assert evidence.add(103, -1, [3]) is None
    assert evidence.add(102, 0, []) is None
    # 1 * 3, then -1 * -1, then 0 * 8
    assert evidence.add(110, 1, [4]) == ((1, 2), 4.0)
    # -1 * -1, then 0 * 8, then 1 * -5
    assert evidence.add(105, 1, []) == ((3,), -4.0)


def test_bm25_ranks_texts_in_english_and_chinese() -> None:
    bm25 = Bm25()
    texts = ["Microsoft cloud revenue rose", "rain in the Alps", "微软云业务收入增长", "cloud"]
    english = bm25("cloud revenues", texts)
    assert max(english) == english[0] == 1.0
    assert english[0] > english[3] > 0
    assert english[1] == english[2] == 0.0
    chinese = bm25("云业务的收入", texts)
    assert chinese[2] == 1.0
    assert chinese[0] == chinese[1] == 0.0
    assert bm25("", texts) == bm25("zebra", texts) == [0.0] * 4
    assert bm25("cloud", []) == []
    assert bm25("cloud", ["1 2 3"]) == [0.0]


def test_a_reason_like_an_earlier_one_is_no_new_reflection() -> None:
    memory = LayeredMemory()
    first = memory.reflect("The price rises, since demand for bolts is strong.", FIRST)
    assert first is not None
    assert memory.reflect("Since demand for bolts is strong, the price rises!", FIRST) is None
    assert memory.reflect("Demand is weak.", FIRST) is not None
    assert len(memory) == 2
