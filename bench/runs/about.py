"""The typed content of `run.json`, which describes the run in a run directory.

The file has the fields in the order in which they became known. An agent, a judge or a gateway may
add settings of its own: fields that `RunInfo` does not know are kept and written back unchanged.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from bench.models.prices import Prices
from bench.record import Figure, Time, Whole
from manifests.common.problem import first_problem
from manifests.common.regular_file import WHY_NOT, read_text

MOST_BYTES = 16 * 2**20
"""The longest `run.json` that is read; a run writes some kilobytes."""


INTERRUPTED, COMPLETE = "interrupted", "complete"
"""How a run ended (`ended`)."""

LINK = "it is a symbolic link, which is not followed in a run directory"


class RunDirectoryError(Exception):
    """The directory can't be used, or a file in it can't be read; the text says which and why."""


def check_own(file: Path) -> None:
    """Raises `RunDirectoryError` if a file of a run is a link or no regular file. One that is
    missing passes.
    """
    if file.is_symlink():
        raise RunDirectoryError(f"{file}: {LINK}")
    if file.exists() and not file.is_file():
        raise RunDirectoryError(f"{file}: {WHY_NOT}")


class WrittenFile(BaseModel):
    """What a run has written to a file of records: how many bytes, and their digest."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    bytes: Annotated[Whole, Field(ge=0)]
    digest: str


class RunInfo(BaseModel):
    """The content of a `run.json`. Made by `RunInfo.of` and `RunInfo.read`.

    It has fields for what the project relies on; one that the file lacks has its default here.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    suite: str = ""
    suite_digest: str = ""
    selection: dict[str, Any] = {}
    tasks: Whole = 0
    agent: str = ""
    agent_is_simulated: bool = False
    model: str | None = None
    judge: str = ""
    answered_by: dict[str, list[str]] = {}
    top_k: Whole | None = None
    limits: dict[str, Figure | None] = {}
    gateway: str = ""
    seed: Whole = 0
    episodes: Whole = 0
    concurrency: Whole = 0
    starts_per_s: Figure = 0.0
    catalog_revision: str = ""
    finport: str = ""
    python: str = ""
    own_code: dict[str, str] = {}
    started_at: Time = 0.0
    upstream: str | None = None
    mode: str | None = None
    snapshot: str | None = None
    ended: str = ""
    episodes_before: Whole = 0
    took_s: Figure = 0.0
    episodes_per_s: Figure = 0.0
    calls_per_s: Figure = 0.0
    most_in_flight: Whole = 0
    first_errors: dict[str, str] = {}
    judged: Whole = 0
    failed_judgements: Whole = 0
    driver: dict[str, Any] = {}
    gateway_calls: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    failed_saves: Whole = 0
    files: dict[
        Literal["calls.jsonl", "episodes.jsonl", "checkpoints.jsonl", "transcripts.jsonl"],
        WrittenFile,
    ] = {}
    accepted: list[str] = []
    parts: Annotated[Whole, Field(ge=1)] = 1
    digest: str = ""
    prices: Prices | None = None

    _content: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, content: Mapping[str, Any], file: Path | str = "run.json") -> "RunInfo":
        """Raises `RunDirectoryError`, which names `file`."""
        try:
            info = cls.model_validate(content)
        except ValidationError as error:
            problem = first_problem(error)
            raise RunDirectoryError(f"{file}: not the settings of a run: {problem}") from error
        info._content = {**content}
        return info

    @classmethod
    def read(cls, run_dir: Path) -> "RunInfo":
        """The content of the `run.json` in `run_dir`. Raises `RunDirectoryError`, before anything
        is read if the file is a link.
        """
        file = run_dir / "run.json"
        check_own(file)
        try:
            text = read_text(file, MOST_BYTES)
        except OSError as error:
            why = f"{run_dir} holds no run: run.json: {error.strerror}"
            raise RunDirectoryError(why) from error
        try:
            content = orjson.loads(text)
            orjson.dumps(content)
        except (orjson.JSONDecodeError, TypeError) as error:  # orjson reads deeper than it writes
            raise RunDirectoryError(f"{file}: not JSON: {error}") from error
        if not isinstance(content, dict):
            raise RunDirectoryError(f"{file}: not the settings of a run")
        return cls.of(content, file)

    @property
    def content(self) -> Mapping[str, Any]:
        """The whole content of the file, without defaults for fields that it lacks."""
        return self._content

    @property
    def player(self) -> str:
        """The agent, with its model if it has one, as people read it."""
        agent = self.agent or "an unknown agent"
        return f"{agent} with {self.model}" if self.model else agent

    def updated(self, changes: Mapping[str, Any]) -> "RunInfo":
        """A copy with these fields changed or added. Raises `RunDirectoryError`."""
        return RunInfo.of({**self._content, **changes})


def simulated(about: RunInfo) -> list[str]:
    """What was simulated in a run, so that its figures say nothing about it; a clause each. A
    simulated model says so itself, by whatever name it is asked for.
    """
    from bench.models.simulated import MODEL

    found = []
    if "simulated" in (about.upstream or ""):
        found.append("answers are simulated, so no figure tells of real tools")
    if lies := about.content.get("simulated_lies"):
        found.append(f"{lies:.0%} of the answers lie on purpose")
    if about.agent_is_simulated:
        found.append("the agent is scripted, so none tells of a model")
    if MODEL in (about.model, *about.answered_by.get("agent", ())):
        found.append("the model is simulated, so none tells of a real one")
    if about.judge == f"llm:{MODEL}" or MODEL in about.answered_by.get("judge", ()):
        found.append("the judge is simulated")
    return found
