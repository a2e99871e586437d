"""Scores the episodes of a run by the scorer of Inspect AI: a line of JSON for each.

    python -m finport_inspect.parity RUN --suite SUITE [--dataset PATH]

Each line has `episode`, `reward` (null for an outage), `figures` and `outage`. They must be what
`finport.Rollouts` says of the same episodes.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai.model import ModelName
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState

from bench.rollouts import messages_of
from bench.runs.reader import Run
from finport import EpisodeRecord
from finport_inspect.choice import Choice, suite_of
from finport_inspect.messages import from_chat
from finport_inspect.scoring import ENDED, OutageError, finport_reward, keep


def state_of(record: EpisodeRecord, *, has_session: bool) -> TaskState:
    """The state of a sample after the recorded episode."""
    state = TaskState(
        model=ModelName("mockllm/model"),
        sample_id=record.id,
        epoch=record.repeat + 1,
        input=record.question,
        messages=[*from_chat(messages_of(record))],
    )
    if record.error is not None:
        state.store.set(ENDED, {"error": record.error, "ending": record.ending})
    if has_session:  # the calls that open and close it are in no message
        keep(state, record)
    return state


async def lines(run: Path, suite: str, dataset: str | None) -> None:
    chosen = suite_of(Choice(suite, dataset))
    score = finport_reward(suite, dataset)
    for record in Run.open(run).records():
        if not isinstance(record, EpisodeRecord):
            continue
        has_session = chosen.environment(chosen.tasks[0]) is not None
        said: dict[str, Any] = {"episode": record.episode}
        try:
            found = await score(state_of(record, has_session=has_session), Target(""))
        except OutageError as outage:
            about = outage.score
            said |= {"reward": None, "figures": dict(about.figures), "outage": about.outage}
        else:
            metadata = (found and found.metadata) or {}
            said |= {"reward": found and found.value, "figures": metadata["figures"]}
            said["outage"] = None
        sys.stdout.write(json.dumps(said) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m finport_inspect.parity")
    parser.add_argument("run", type=Path)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dataset")
    given = parser.parse_args()
    asyncio.run(lines(given.run, given.suite, given.dataset))


if __name__ == "__main__":
    main()
