"""When the next recording of a watched series is due, whatever happens to clock and process."""

from pathlib import Path

import pytest

from bench.drift.schedule import Schedule
from tests.support.waiting import Stepping

DAY_S = 86_400.0
NOON = 1_795_348_800.0  # 2026-11-22 12:00 UTC


def schedule(folder: Path, time: Stepping, every_s: float = DAY_S) -> Schedule:
    return Schedule(folder, every_s, time.clock)


@pytest.fixture
def time() -> Stepping:
    return Stepping(NOON)


def recorded(schedule: Schedule) -> str:
    path = schedule.start()
    path.touch()
    return path.name


def interrupted(schedule: Schedule) -> Path:
    path = schedule.start()
    path.with_name(f"{path.name}.journal").touch()
    return path


def test_times_stay_the_same_across_restarts(tmp_path: Path, time: Stepping) -> None:
    first = schedule(tmp_path, time)
    assert first.wait_s() == 0
    assert recorded(first) == "2026-11-22T120000Z.snapshot"
    time.go_on(3_600)
    assert first.wait_s() == DAY_S - 3_600
    again = schedule(tmp_path, time)
    assert again.wait_s() == DAY_S - 3_600
    time.go_on(2 * DAY_S)
    assert again.wait_s() == 0, "what was missed is not made up for"
    assert recorded(again) == "2026-11-24T130000Z.snapshot"


@pytest.mark.parametrize("step_s", [-10 * DAY_S, -3_600.0])
def test_a_clock_that_is_set_back_changes_no_period(
    tmp_path: Path, time: Stepping, step_s: float
) -> None:
    one = schedule(tmp_path, time)
    recorded(one)
    time.go_on(3_600)
    time.step(step_s)
    assert one.wait_s() == pytest.approx(DAY_S - 3_600)
    time.go_on(DAY_S - 3_600)
    assert one.wait_s() == 0
    recorded(one)
    assert one.wait_s() == pytest.approx(DAY_S)


def test_a_restart_after_the_clock_was_set_back_waits_a_period_at_most(
    tmp_path: Path, time: Stepping
) -> None:
    recorded(schedule(tmp_path, time))
    time.step(-10 * DAY_S)
    again = schedule(tmp_path, time)
    assert again.wait_s() == DAY_S
    time.go_on(DAY_S)
    assert again.wait_s() == 0
    assert recorded(again) == "2026-11-13T120000Z.snapshot"


def test_a_name_is_never_used_twice(tmp_path: Path, time: Stepping) -> None:
    one = schedule(tmp_path, time, 1.0)
    recorded(one)
    time.go_on(1.0)
    time.step(-1.0)
    assert one.wait_s() == 1.0
    time.go_on(1.0)
    assert recorded(one) == "2026-11-22T120001Z.snapshot"


def test_an_interrupted_recording_goes_on_unless_it_failed_or_is_not_the_newest(
    tmp_path: Path, time: Stepping
) -> None:
    path = interrupted(schedule(tmp_path, time))
    time.go_on(3 * DAY_S)
    again = schedule(tmp_path, time)
    assert again.unfinished() == path
    assert again.start() == path
    again.failed(path)
    assert again.unfinished() is None
    assert again.wait_s() == 0, "its own time is over"
    assert recorded(again) == "2026-11-25T120000Z.snapshot"
    assert schedule(tmp_path, time).unfinished() is None


def test_a_recording_that_left_no_file_is_not_tried_again_before_its_time(
    tmp_path: Path, time: Stepping
) -> None:
    one = schedule(tmp_path, time)
    one.failed(one.start())
    assert one.wait_s() == DAY_S
