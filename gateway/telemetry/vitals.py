"""The state of the process: event loop lag and memory.

A blocked loop takes no samples: of 15 s one sample would be left, which no percentile shows. So
each late sample also counts as the samples that it prevented. Each of these is late by a period
less than the one before (coordinated omission, corrected as HdrHistogram does).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.telemetry.quantile import Quantiles
from manifests.common.memory import children_peak_rss_bytes, forget_peak, peak_rss_bytes

PERIOD_S = 0.01

_PERIOD_MS = PERIOD_S * 1e3
_STEPS = 1_000
"""The most samples that a late one is counted as; of a longer lag each stands for several."""


class Vitals:
    """Samples of loop lag: how many milliseconds late a timer of 10 ms fires."""

    def __init__(self) -> None:
        self.lag_ms = Quantiles()
        self.late_s = 0.0
        """Seconds by which timers have fired late, of those that were late by a period or more."""

    @classmethod
    @asynccontextmanager
    async def watch(cls) -> AsyncIterator["Vitals"]:
        """Measure for as long as the context is open; the peak of memory is reset at the start."""
        vitals = cls()
        forget_peak()
        sampler = asyncio.create_task(vitals._sample())
        try:
            yield vitals
        finally:
            sampler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampler

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self.fired(max(loop.time() - due, 0.0) * 1e3)

    def fired(self, late_ms: float) -> None:
        """Count a timer that fired so late."""
        missed = int(late_ms / _PERIOD_MS)
        if missed:
            self.late_s += late_ms / 1e3
        step = missed // _STEPS + 1
        for first in range(0, missed + 1, step):
            self.lag_ms.add(late_ms - first * _PERIOD_MS, min(step, missed + 1 - first))

    def result(self) -> dict[str, Any]:
        return {
            "loop_lag_ms": self.lag_ms.result(),
            "peak_rss_bytes": peak_rss_bytes(),
            "children_peak_rss_bytes": children_peak_rss_bytes(),
        }
