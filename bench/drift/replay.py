"""Plays a recorded run again on two snapshots: the replay agent, through the real driver and a
gateway in mode `offline`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import anyio

from bench.agents.registry import AgentSettings
from bench.drift.impact import Fates
from bench.judges.registry import JudgeSettings
from bench.progress import Progress
from bench.runs.about import COMPLETE
from bench.runs.driver import Limits
from bench.runs.reader import Run
from bench.runs.resume import Resuming
from bench.runs.run import RunPlan
from bench.runs.run import run as run_plan
from bench.runs.silence import of_judge
from bench.suites import load_suite
from bench.suites.suite import Suite, SuiteError, read_as
from cache import Snapshot
from gateway import GatewaySettings
from manifests import Catalog

SIDES: Final = ("a", "b")

_PIECE: Final = 2**22
_TELL_EVERY_S: Final = 2.0


def plan_of(run: Run, suite: str, dataset: Path | None, judge: JudgeSettings) -> RunPlan:
    """The run again, by the replay agent. Raises `SuiteError`, also for other tasks than its."""
    loaded, about = load_suite(suite, dataset), run.about
    if chosen := about.content.get("selection"):
        loaded = _chosen(loaded, chosen)
    if about.suite_digest and loaded.digest != about.suite_digest:
        text = f"the tasks have digest {loaded.digest}, those of the run {about.suite_digest}"
        raise SuiteError(f"{text}; name the file of the run's tasks with --dataset")
    said = about.content.get("limits", {})
    return RunPlan(
        suite=loaded,
        gateway="embedded",
        episodes=about.episodes or len(loaded.tasks),
        concurrency=100,
        agent=AgentSettings.of("replay", {"trace": run.path}, seed=about.seed),
        judge=judge,
        limits=Limits(**{f.name: said[f.name] for f in fields(Limits) if f.name in said}),
        environment=about.content.get("environment", {}),
    )


def _chosen(suite: Suite, selection: Any) -> Suite:
    """The tasks that a run chose from those of its suite, as its `run.json` says."""
    match selection:
        case {"ids": [*ids]}:
            return suite.selected([*map(str, ids)])
        case {"tasks": int(number), "seed": int(seed), "stratify": [*fields]}:
            return suite.selected(number, seed=seed, stratify=[*map(str, fields)])
    raise SuiteError("run.json: it does not say how the tasks were chosen")


@dataclass(frozen=True, slots=True)
class Replay:
    """What is played again, and where: each side has a snapshot, a gateway and a folder. With
    `resume` the replays in the folders go on. `tell` hears of the progress.
    """

    run: Run
    plan: RunPlan
    catalog: Catalog
    snapshots: Mapping[str, Snapshot]
    settings: Mapping[str, GatewaySettings]
    folders: Mapping[str, Path]
    resume: bool
    tell: Callable[[str], None]

    def notes(self, kind: type[Suite]) -> Iterator[str]:
        """What the user must know to read the figures."""
        about = self.run.about
        if about.ended != COMPLETE:
            yield "the run was interrupted: only the episodes that it finished count"
        shown = read_as(kind.metrics, "program")
        judged = [metric.name for metric in shown if metric.is_judged]
        if self.plan.judge.type is None and judged:
            text = f"no judge, so {', '.join(judged)} are left out"
            if about.judge and about.judge != "none":
                text += f"; the run's was {about.judge}: name it with --judge"
            yield text
        if self.plan.judge.needs_model:
            yield "the judge's model is asked for each snapshot, and may itself differ"
        a, b = (" and ".join(self.snapshots[side].summary.made_by) for side in SIDES)
        if a != b:
            yield f"the upstreams differ, and so all their answers: {a} in A, {b} in B"

    async def play(self) -> int:
        """Play the run on both snapshots, and return 0. Raises what a run raises."""
        revision = self.run.about.catalog_revision
        for side in SIDES:
            folder = self.folders[side]
            telling = asyncio.create_task(self._tell_progress(side))
            try:
                about = await run_plan(
                    self.plan,
                    folder,
                    self.settings[side],
                    show=False,
                    resuming=Resuming() if self.resume and folder.exists() else None,
                    catalog=self.catalog,
                )
            finally:
                telling.cancel()
            error = about.first_errors.get("judge")
            for text in of_judge(about.judged, about.failed_judgements, error):
                self.tell(f"finbench: {text}")
        if revision and about.catalog_revision != revision:
            text = f"the tools have revision {about.catalog_revision}, those of the run {revision}"
            self.tell(f"finbench: {text}")
        return 0

    def fates(self) -> Fates:
        """What became of the run's calls between the snapshots."""
        own = self.settings["a"].model_copy(update=dict(self.plan.suite.gateway_settings))
        catalog = self.catalog if own.market is None else self.catalog.with_market()
        return Fates(self.snapshots["a"], self.snapshots["b"], catalog)

    async def _tell_progress(self, side: str) -> None:
        """Say how far a replay is, by the lines that it has written."""
        progress, episodes = Progress(self.tell, _TELL_EVERY_S), self.plan.episodes
        what = f"replay on {side.upper()}, {SIDES.index(side) + 1} of 2"
        written = anyio.Path(self.folders[side] / "episodes.jsonl")
        place = done = 0
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            if await written.exists():
                async with await written.open("rb") as file:
                    await file.seek(place)
                    while text := await file.read(_PIECE):
                        place += len(text)
                        done += text.count(b"\n")
                share = min(done / episodes, 1.0)
                progress.at(share, f"{what}: {done:,} of {episodes:,} episodes")
