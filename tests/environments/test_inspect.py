"""The tasks of Inspect AI, by Inspect's own commands.

They run in an environment of their own, which TEST_ENVIRONMENTS names and `.ci/run` makes.
"""

import json
import os
import subprocess
from base64 import b64encode
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from rs_bpe.bpe import openai

from tests.support.checkout import ROOT
from tests.support.installed import ENVIRONMENTS, framework_is_missing
from tests.support.markets import write_market

PLAY = ROOT / "tests" / "environments" / "play_inspect.py"
LONG_S = 180.0

VOCABULARY = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
"""Inspect's mock model counts tokens by this file, which no test fetches."""

TOKENS = 199_998


if reason := framework_is_missing("inspect"):
    pytest.skip(reason, allow_module_level=True)

BIN = Path(str(ENVIRONMENTS)) / "inspect" / "bin"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the vocabulary, as the tokenizer of this project has it."""
    folder = tmp_path_factory.mktemp("vocabulary")
    tokens = openai.o200k_base().bpe().decode_tokens
    lines = (b"%b %d\n" % (b64encode(tokens([number])), number) for number in range(TOKENS))
    name = sha1(VOCABULARY.encode(), usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(b"".join(lines))
    return folder


def told(folder: Path, *words: str | Path, **variables: str) -> str:
    """What a command of the environment wrote."""
    done = subprocess.run(
        [str(BIN / words[0]), *map(str, words[1:])],
        cwd=folder,
        env={"HOME": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def played(folder: Path, *words: str | Path) -> list[dict[str, Any]]:
    told(folder, "python", PLAY, *words)
    found: list[dict[str, Any]] = json.loads((folder / "told.json").read_text())
    return found


def test_a_suite_is_a_task_for_the_command_line(tmp_path: Path, vocabulary: Path) -> None:
    command = ("inspect", "eval", "finport_inspect/generated", "--model", "mockllm/model")
    chosen = ("-T", "limit=3", "-T", "difficulty=1,2", "-T", "language=en")
    told(tmp_path, *command, *chosen, "--log-dir", "logs", TIKTOKEN_CACHE_DIR=str(vocabulary))
    (file,) = (tmp_path / "logs").iterdir()
    log = json.loads(told(tmp_path, "inspect", "log", "dump", file))
    assert log["status"] == "success"
    assert len(log["samples"]) == 3
    (score,) = log["results"]["scores"]
    assert {"mean", "stderr", "Accuracy", "StepCredit"} <= score["metrics"].keys()
    for sample in log["samples"]:
        about = sample["metadata"]
        assert (about["language"], about["difficulty"] in "12") == ("en", True)
        assert about["tools"]
        made = sample["scores"]["finport_reward"]
        assert (made["value"], made["metadata"]["outage"]) == (0.0, None)
    told(tmp_path, "inspect", "view", "bundle", "--log-dir", "logs", "--output-dir", "bundle")
    assert (tmp_path / "bundle" / "index.html").is_file()
    wrong = [str(BIN / "inspect"), *command[1:], "-T", "tools=ftp"]
    refused = subprocess.run(
        wrong, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S, check=False
    )
    assert refused.returncode != 0
    assert "tools must be mcp or native" in refused.stdout + refused.stderr


@pytest.mark.soak
def test_native_tools_have_a_session_of_the_market(tmp_path: Path) -> None:
    (found,) = played(tmp_path, "investorbench", write_market(tmp_path / "market"))
    assert (found["status"], found["errors"]) == ("success", [])
    (about,) = found["metadata"]
    assert about["figures"]["reached_the_end"] == 1.0
    assert found["values"] == [about["figures"]["CR"]]


@pytest.mark.soak
def test_an_outage_is_an_error_that_can_be_retried(tmp_path: Path) -> None:
    away, there = played(tmp_path, "outage")
    assert (away["values"], len(away["errors"])) == ([], 4)
    assert (there["status"], there["values"], there["errors"]) == ("success", [1.0] * 4, [])
