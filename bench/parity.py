"""Scores of a run's episodes by another framework, as `finbench env parity` asks for them."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson

from bench.judges.registry import JudgeSettingsError
from bench.record import EpisodeRecord
from bench.rollouts import Score, line_of
from bench.runs.about import RunDirectoryError
from bench.runs.reader import Run
from bench.suites.suite import SuiteError

Scorer = Callable[[EpisodeRecord], Awaitable[Score]]
"""Scores a recorded episode as the framework scores those that it plays."""

OpenScorer = Callable[[str, Path | None], AbstractAsyncContextManager[Scorer]]
"""Opens the scorer of a suite, and of its dataset. Raises `SuiteError`."""


def main(opened: OpenScorer) -> None:
    """Print a line of JSON for each episode of the run that the arguments name."""
    parser = argparse.ArgumentParser(description="Scores the episodes of a run, a line for each.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--suite", help="Default: that of the run.")
    parser.add_argument("--dataset", type=Path)
    given = parser.parse_args()
    try:
        run = Run.open(given.run)
        suite = given.suite or str(run.about.content["suite"])
        asyncio.run(_tell(run, opened(suite, given.dataset)))
    except (JudgeSettingsError, RunDirectoryError, SuiteError) as error:
        parser.exit(1, f"{error}\n")


async def _tell(run: Run, opened: AbstractAsyncContextManager[Scorer]) -> None:
    async with opened as score:
        for record, _ in run.episodes():
            line = line_of(record.episode, await score(record))
            sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
