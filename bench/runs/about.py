"""What a run directory says of its run: `run.json`, and what of it was simulated, in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.record import Figure, Time, Whole
from manifests.problem import first_problem

MOST_BYTES = 16 * 2**20
"""Longest `run.json` that is read; a run writes some kilobytes."""


class RunDirectoryError(Exception):
    """The directory can't be used, or a file in it can't be read; the text says which and why."""


class _About(BaseModel):
    """What readers of `run.json` rely on; there may be more in it, and less."""

    model_config = ConfigDict(extra="ignore", strict=True)

    suite: str = ""
    suite_digest: str = ""
    tasks: Whole = 0
    agent: str = ""
    agent_is_simulated: bool = False
    model: str | None = None
    judge: str = ""
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
    parts: Whole = Field(1, ge=1)
    digest: str = ""


def read_about(run_dir: Path) -> dict[str, Any]:
    """The content of `run.json`. Raises `RunDirectoryError`."""
    file = run_dir / "run.json"
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise RunDirectoryError(f"{run_dir} holds no run: run.json: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise RunDirectoryError(f"{file}: over {MOST_BYTES} bytes, so not the settings of a run")
    try:
        about = orjson.loads(text)
        orjson.dumps(about)
    except (orjson.JSONDecodeError, TypeError) as error:  # it reads deeper objects than it writes
        raise RunDirectoryError(f"{file}: not JSON: {error}") from error
    if not isinstance(about, dict):
        raise RunDirectoryError(f"{file}: not the settings of a run")
    try:
        _About.model_validate(about)
    except ValidationError as error:
        problem = first_problem(error)
        raise RunDirectoryError(f"{file}: not the settings of a run: {problem}") from error
    return about


def simulated(about: Mapping[str, Any]) -> list[str]:
    """What of a run was simulated, and so of what its figures do not tell; a clause each."""
    from bench.models.simulated import MODEL

    found = []
    if "simulated" in str(about.get("upstream")):
        found.append("answers are simulated, so no figure tells of real tools")
    if about.get("agent_is_simulated"):
        found.append("the agent is scripted, so none tells of a model")
    if about.get("model") == MODEL:
        found.append("the model is simulated, so none tells of a real one")
    if about.get("judge") == f"llm:{MODEL}":
        found.append("the judge is simulated")
    return found
