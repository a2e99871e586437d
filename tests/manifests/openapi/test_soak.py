"""The description of GitHub's API, which npm has: every operation becomes a tool that is called."""

import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from manifests.openapi.document import read_document
from manifests.openapi.importing import imported
from tests.support.openapi_runs import tried

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

PACKAGE = "@octokit/openapi@23.0.2"
NAME = "package/generated/api.github.com.json"

CONTRADICTORY = ("POST /user/keys ", "POST /user/ssh_signing_keys ")
"""Operations whose own example does not fit their own pattern."""


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("github")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    npm = ["npm", "pack", PACKAGE]
    packed = subprocess.run(npm, cwd=folder, capture_output=True, text=True, check=False)
    if packed.returncode:
        pytest.skip("npm does not have the package")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as opened:
        opened.extract(NAME, folder, filter="data")
    return folder / NAME


def test_it_is_imported_within_10_seconds(github: Path) -> None:
    began = time.perf_counter()
    found = imported(read_document(github.read_bytes()), prefix="github_")
    took_s = time.perf_counter() - began
    assert (len(found.manifests), found.present, found.left_out) == (1223, 1223, [])
    assert took_s < 10


async def test_every_tool_sends_requests_that_the_document_allows(
    github: Path, tmp_path: Path
) -> None:
    done = await tried(github, tmp_path, 4)
    assert [one for one in done.wrong if not one.startswith(CONTRADICTORY)] == []
    assert len(done.wrong) <= len(CONTRADICTORY)
    assert len(done.operations) == 1223
