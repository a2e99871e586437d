"""Batches: an episode leaves with its calls, and what waits is bounded in bytes."""

import asyncio

import orjson
import pytest

from bench.engines.batch import BATCH_BYTES, WAITING_BYTES, Collector
from bench.record import EpisodeRecord
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks
from gateway import CallRecord
from tests.support.records import call, episode

pytestmark = pytest.mark.anyio


def ended(name: str, chars: int = 0) -> EpisodeRecord:
    record = episode()
    record.episode, record.execution_result = name, "x" * chars
    return record


def called(name: str) -> CallRecord:
    record = call()
    record.episode = name
    return record


async def test_calls_leave_with_their_episode() -> None:
    collector = Collector(LabelledTasks)
    for name in ("a", "b", "a"):
        collector.calls.put(called(name))
    collector.put(ended("a"))
    batch = collector.take()
    assert batch.names == ["a"]
    assert [orjson.loads(line)["episode"] for line in batch.calls.splitlines()] == ["a", "a"]
    assert batch.metrics is not None
    assert batch.metrics.traffic.latency_ms.count == 2
    assert collector.take().names == []
    collector.put(ended("b"))
    assert collector.take().calls.count(b"\n") == 1


async def test_batches_are_bounded_and_the_driver_waits_until_they_are_taken() -> None:
    collector = Collector(LabelledTasks)
    count = 0
    while not collector.full:
        collector.put(ended(str(count), BATCH_BYTES // 3))
        count += 1
    assert count * BATCH_BYTES / 3 < WAITING_BYTES + BATCH_BYTES
    waiting = asyncio.create_task(collector.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    metrics, sizes = RunMetrics(LabelledTasks), []
    while names := (batch := collector.take()).names:
        sizes.append(batch.size)
        assert batch.metrics is not None
        metrics.merge(batch.metrics)
        assert len(names) <= 4
    await waiting
    assert max(sizes) < 2 * BATCH_BYTES
    assert metrics.episodes == count


async def test_it_is_enough_when_all_have_ended_or_a_batch_is_full() -> None:
    collector = Collector(LabelledTasks)
    collector.awaited = 2
    collector.put(ended("a"))
    waiting = asyncio.create_task(collector.until_enough(3600.0, 3600.0))
    await asyncio.sleep(0.01)
    assert not waiting.done(), "another is awaited"
    collector.put(ended("b"))
    await waiting
    collector.take()
    collector.awaited = 5
    waiting = asyncio.create_task(collector.until_enough(3600.0, 3600.0))
    collector.put(ended("c", BATCH_BYTES))
    await waiting
    collector.take()
    await collector.until_enough(0.01, 0.01)
    collector.over()
    await collector.until_enough(3600.0, 3600.0)
