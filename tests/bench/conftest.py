"""What tests of the bench share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.runs.directory import RunDirectory


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[RunDirectory]:
    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        yield directory


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip knows no index but one at which nothing listens."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
