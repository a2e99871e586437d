"""The judge of Finova's answers: rules, in our reading and in the published one."""

from contextlib import AsyncExitStack
from typing import Self

from anyio import to_thread

from bench.record import EpisodeRecord, Judgement, storable
from bench.suites.finova.extraction import extracted
from bench.suites.finova.mathematics import Comparisons
from bench.suites.finova.published import published
from bench.suites.finova.verdict import is_right
from bench.suites.finova.worker import Mathematics
from bench.suites.suite import SuiteError

EXTRACTED_CHARS = 2_000
"""The longest extracted answer in a record."""


LONG_CHARS = 5_000
"""A longer text is read in a thread, so that it does not hold the event loop."""


class FinovaJudge:
    """Judges answers while its context is open. Serves many episodes at once."""

    name = "rules"

    async def __aenter__(self) -> Self:
        """Raises `SuiteError` without math-verify."""
        async with AsyncExitStack() as stack:
            self._mathematics = await stack.enter_async_context(Mathematics.open())
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """Raises `SuiteError` if no process can start, or for an answer to no task."""
        if not record.question:
            raise SuiteError(f"the dataset has no task {record.id}")
        if len(record.execution_result) > LONG_CHARS:
            answer, verdicts = await to_thread.run_sync(_read, record)
        else:
            answer, verdicts = _read(record)
        scores = {
            reading: float(await self._mathematics.holds(verdict))
            for reading, verdict in verdicts.items()
        }
        return Judgement(
            self.name,
            record.category,
            [scores["accuracy"]],
            by_metric={reading: [score] for reading, score in scores.items()},
            extracted=storable(answer[:EXTRACTED_CHARS]),
        )


def _read(record: EpisodeRecord) -> tuple[str, dict[str, bool | Comparisons]]:
    """The extracted answer, and whether it is right by both readings. In ours, an empty answer and
    an episode that ended with an error are wrong; the published rule takes an empty text for an
    empty list of slots.
    """
    kind, gold, text = record.category, record.ground_truth, record.execution_result
    answer = extracted(kind, text)
    return answer, {
        "accuracy": bool(text.strip()) and record.error is None and is_right(kind, gold, answer),
        "accuracy_published": published(kind, gold, text),
    }
