"""What the capacity model says of runs of which it is known."""

import json

import pytest
from click.testing import CliRunner

from bench.capacity.costs import Cost, Sample, UnitCosts
from bench.capacity.model import Parts, Workload, head_busy, simulated, sized
from bench.cli.main import main

NOTHING = Cost(0.0, 0.0)


def costs(
    player: Cost = NOTHING, gateway: Cost = NOTHING, head: Cost = NOTHING, disk: Cost = NOTHING
) -> UnitCosts:
    return UnitCosts(player, gateway, head, disk, NOTHING, NOTHING, 1_000.0, NOTHING, NOTHING)


def test_a_cost_is_fitted_from_three_measurements() -> None:
    true = Cost(3.0, 2.0, 0.5)
    sizes = ((1_000, 2_000, 10), (100, 1_000, 8), (10, 10, 100))
    samples = (Sample(*size, cost=true.of(*size)) for size in sizes)
    fitted = Cost.fitted(*samples)
    found = (fitted.episode, fitted.call, fitted.second)
    assert found == pytest.approx((3.0, 2.0, 0.5))


def test_a_run_that_only_waits_takes_its_waiting() -> None:
    workload = Workload(10_000, 40_000, 2.0, 1, 3_600.0)
    assert workload.turns == 5
    found = simulated(workload, costs(), Parts(2, 1, 1_000))
    assert found.episode_s == pytest.approx(10.0, rel=0.02)
    assert found.waiting_s == 0
    assert found.took_s == pytest.approx(10_000 / 1_000 * 10.0, rel=0.1)


def test_a_run_with_a_slow_part_takes_the_time_of_that_part() -> None:
    workload = Workload(4_000, 16_000, 0.1, 1, 3_600.0)
    of = costs(player=Cost(0.001, 0.0), gateway=Cost(0.0, 0.01))
    found = simulated(workload, of, Parts(2, 1, 1_000))
    assert found.busy["gateways"] == max(found.busy.values())
    assert found.took_s == pytest.approx(160.0, rel=0.1)
    assert found.busy["gateways"] == pytest.approx(1.0, abs=0.05)


def test_processes_of_one_machine_share_its_cores() -> None:
    workload = Workload(4_000, 16_000, 0.1, 1, 3_600.0)
    of = costs(player=Cost(0.01, 0.0), gateway=Cost(0.0, 0.01))
    alone = simulated(workload, of, Parts(2, 1, 1_000), cores=1)
    assert alone.took_s == pytest.approx(200.0, rel=0.1)


def test_parts_are_as_busy_as_they_may_be() -> None:
    workload = Workload(1e6, 1e9, 2.0, 16, 86_400.0)
    of = costs(player=Cost(0.01, 0.0005), gateway=Cost(0.0, 0.0001), head=Cost(0.0001, 1e-6))
    parts = sized(workload, of, 0.5)
    found = simulated(workload, of, parts)
    assert found.took_s < 86_400.0
    assert max(found.busy["players"], found.busy["gateways"]) < 0.9
    assert head_busy(workload, of, parts.players) == pytest.approx((100 + 1_000) / 86_400.0)


def test_the_command_says_what_a_run_needs() -> None:
    options = ("--episodes", "1e6", "--model-latency", "2s", "--core-hour-price", "0.05", "--json")
    done = CliRunner().invoke(main, ["capacity", *options])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["turns_of_an_episode"] == 64
    assert found["players"] > 1
    assert found["breaks_first"] in found["busy"]
    assert found["cost"] == pytest.approx(0.05 * found["core_hours"])
    told = CliRunner().invoke(main, ["capacity", "--model-latency", "500ms"])
    assert "breaks_first: " in told.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model-latency", "2 parsecs"), "is no duration, such as 2s"),
        (("--model-latency", "99999999999d"), "is not from 0s to 36500d"),
        (("--within", "0s"), "0s is not from 1s to 36500d"),
        (("--episodes", "0"), "is not in the range 1<=x<="),
        (("--episodes", "nan"), "is not a finite number"),
        (("--calls", "-1"), "is not in the range 0<=x<="),
        (("--calls", "1e300"), "is not in the range 0<=x<="),
        (("--utilisation", "nan"), "is not a finite number"),
        (("--miss-share", "nan"), "is not a finite number"),
        (("--core-hour-price", "1e308"), "is not in the range 0<=x<="),
        (("--model-latency", "100d"), "episodes of 64 turns at once, more than can be simulated"),
        (("--episodes", "1"), "of 62,500,001 turns at once, more than can be simulated"),
    ],
)
def test_what_no_run_can_be_is_refused(options: tuple[str, str], said: str) -> None:
    done = CliRunner().invoke(main, ["capacity", *options])
    assert done.exit_code == 2
    assert said in done.stderr
