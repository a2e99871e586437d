"""Leases of episodes to players that are lost, late, or deadly to hold."""

import random

import pytest

from bench.engines.leases import GRACE_S, MOST_LOSSES, Holder, Leases
from bench.runs.driver import Owed, owed
from bench.runs.episode import name_of
from bench.suites import load_suite

SUITE = load_suite("starter")


def leases(episodes: int, episode_s: float = 10.0) -> Leases:
    return Leases(owed(SUITE, episodes), episode_s)


def names(given: list[Owed]) -> list[str]:
    return [name_of(task, repeat) for task, repeat in given]


def test_a_player_holds_at_most_so_many_and_gets_more_as_some_end() -> None:
    of, holder = leases(10), Holder(2)
    first = names(of.take(holder, 4, 0.0))
    assert len(first) == 4
    assert of.take(holder, 4, 0.0) == []
    of.ended(holder, first[:3])
    assert len(of.take(holder, 4, 0.0)) == 3
    assert not of.is_empty
    of.take(holder, 10, 0.0)
    assert of.is_empty
    assert not of.is_done
    of.ended(holder, [*holder.held])
    assert of.is_done


def test_an_episode_that_a_player_does_not_hold_is_not_taken_from_it() -> None:
    of, lost, other = leases(2), Holder(1), Holder(1)
    given = names(of.take(lost, 2, 0.0))
    of.release(lost)
    of.take(other, 2, 0.0)
    with pytest.raises(KeyError):
        of.ended(lost, given)
    assert other.held


def test_a_lease_expires_after_the_time_of_the_episodes_before_it() -> None:
    of, holder = leases(4), Holder(2)
    of.take(holder, 4, 0.0)
    late = 2 * 10.0 + GRACE_S
    assert not of.has_expired(holder, late)
    assert of.has_expired(holder, late + 1)


def test_only_the_late_episodes_of_a_player_are_suspects() -> None:
    of, holder = leases(4), Holder(1)
    first = names(of.take(holder, 1, 0.0))
    of.take(holder, 4, 50.0)
    assert of.release(holder, now=10.0 + GRACE_S + 1) == []
    assert of.lost == 1
    alone, others = Holder(1), Holder(1)
    assert names(of.take(alone, 4, 100.0)) == first
    assert of.take(alone, 4, 100.0) == [], "nothing beside a suspect"
    assert len(of.take(others, 4, 100.0)) == 3


def test_suspects_are_halved_and_the_guilty_one_is_given_up() -> None:
    of, holder = leases(40), Holder(8)
    guilty = names(of.take(holder, 8, 0.0))[5]
    given_up: list[str] = []
    losses = 0
    while not of.is_done:
        if guilty in holder.held:
            given_up += names(of.release(holder))
            losses += 1
            holder = Holder(8)
        else:
            of.ended(holder, [*holder.held])
        of.take(holder, 8, 0.0)
    assert given_up == [guilty]
    assert losses == 4, "8, 4, 2 and 1 episodes"


def test_a_single_episode_is_given_up_after_three_losses() -> None:
    of = leases(1)
    for loss in range(1, MOST_LOSSES + 1):
        holder = Holder(1)
        assert len(of.take(holder, 1, 0.0)) == 1
        assert len(of.release(holder)) == (loss == MOST_LOSSES)
    assert of.is_done


def test_a_busy_player_drains_so_that_suspects_find_one() -> None:
    of, lost, busy = leases(20), Holder(2), Holder(2)
    of.take(busy, 4, 0.0)
    of.take(lost, 4, 0.0)
    of.release(lost)
    assert of.take(busy, 8, 0.0) == [], "it drains"
    of.ended(busy, [*busy.held])
    assert len(of.take(busy, 8, 0.0)) == 2, "half of the suspects"


@pytest.mark.parametrize("seed", range(30))
def test_every_episode_ends_once_whatever_is_lost(seed: int) -> None:
    luck, total = random.Random(seed), 200
    of = leases(total)
    everything = set(names([*owed(SUITE, total)]))
    guilty = set(luck.sample(sorted(everything), 2))
    holders = [Holder(luck.randint(1, 8)) for _ in range(4)]
    ended: list[str] = []
    given_up: list[str] = []
    for _ in range(20_000):
        if of.is_done:
            break
        place = luck.randrange(len(holders))
        holder = holders[place]
        of.take(holder, luck.randint(1, 12), 0.0)
        if guilty & holder.held.keys() or luck.random() < 0.02:
            given_up += names(of.release(holder))
            holders[place] = Holder(luck.randint(1, 8))
        elif holder.held:
            some = luck.sample(sorted(holder.held), luck.randint(1, len(holder.held)))
            of.ended(holder, some)
            ended += some
    assert of.is_done
    assert len(ended) + len(given_up) == total
    assert {*ended, *given_up} == everything
    assert guilty <= {*given_up}
