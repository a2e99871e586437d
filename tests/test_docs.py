"""Every command that the documentation shows does what it shows."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.cli.main import main as finbench
from gateway import GatewaySettings
from gateway.cli.main import main as finport
from gateway.upstreams.hosts import plans_of
from manifests import Catalog
from tests.support.checkout import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAKE = ("make install", "make demo", "make test", "make lint", "make bench", "make soak")


def blocks(language: str) -> list[str]:
    pattern = rf"```{language}\n(.*?)```"
    return [b for d in DOCUMENTS for b in re.findall(pattern, d.read_text(), re.DOTALL)]


def files_shown() -> dict[str, str]:
    """Files by name: the blocks whose first line is a comment with that name."""
    shown = (*blocks("python"), *blocks("yaml"), *blocks("toml"))
    named = ((re.match(r"# (?!finport)(\w+\.(?:py|yaml|toml))\n", block), block) for block in shown)
    return {match[1]: block for match, block in named if match}


def commands() -> list[str]:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if line.strip()]


def commands_that_start(*words: str) -> list[str]:
    return [line for line in commands() if line.startswith(words)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("docs")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "FINPORT_CACHE_DIR": str(folder / "cache"),
        "FINPORT_CLIENTS_FILE": str(folder / "clients.json"),
        "FINPORT_AKSHARE_WORKERS": "1",
    }


@contextmanager
def served(start: str, shown_port: str, ready: str, environment: dict[str, str]) -> Iterator[int]:
    """The one command that starts so, on another port; gives that."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        chosen: int = free.getsockname()[1]
    (serve,) = set(commands_that_start(start))
    words = shlex.split(serve.replace(shown_port, str(chosen)))
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"{ready} ready on http://127.0.0.1:{chosen}")
    yield chosen
    process.terminate()
    process.communicate()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def port(environment: dict[str, str]) -> Iterator[int]:
    """The port of the gateway that the documentation starts."""
    keyless = {**environment, "FINPORT_CLIENTS_FILE": environment["FINPORT_CACHE_DIR"] + "-no-keys"}
    with served("finport serve", "8000", "finport", keyless) as chosen:
        yield chosen


@pytest.fixture(scope="module")
def model_port(environment: dict[str, str]) -> Iterator[int]:
    """The port of the simulated model that the documentation starts."""
    with served("finbench simulated-model", "8100", "simulated model", environment) as chosen:
        yield chosen


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_files_named_exist(document: Path) -> None:
    text = document.read_text()
    modules = {ROOT / path for path in re.findall(r"(?<![\w./-])(?:[\w-]+/)+[\w-]+\.py\b", text)}
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    named = modules | {document.parent / link for link in links}
    assert [str(path) for path in sorted(named) if not path.exists()] == []


def anchors(document: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_sections_linked_exist(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*\.md|)#([^)]+)\)", document.read_text())
    missing = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in anchors(document.parent / file if file else document)
    ]
    assert missing == []


def test_the_documentation_shows_no_command_that_is_not_tried() -> None:
    tried = ("finport ", "finbench ", "curl ", "make ", "export ")
    assert [line for line in commands() if not line.startswith(tried)] == []
    assert len(commands()) >= 12


@pytest.mark.parametrize("target", MAKE)
def test_make_targets_exist(target: str) -> None:
    words = [*shlex.split(target), "--dry-run"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_make_commands_shown_are_targets() -> None:
    assert set(commands_that_start("make ")) <= set(MAKE)


def test_settings_shown_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINPORT_CONFIG", "finport.toml")
    files = files_shown().values()
    for number, block in enumerate(shown := [one for one in blocks("toml") if one not in files]):
        Path("finport.toml").write_text(block)  # in the test's own folder
        settings = GatewaySettings.read(cache_dir=tmp_path / str(number), upstream="simulated")
        assert plans_of(settings, Catalog.load()).keys() == settings.hosts.keys()
        assert settings.hosts or settings.simulated_faults or settings.own_providers()
    assert len(shown) == 4


def test_finport_and_finbench_commands_succeed(
    environment: dict[str, str], model_port: int
) -> None:
    for name, text in files_shown().items():
        Path(name).write_text(text.replace("8100", str(model_port)))  # in the test's own folder
    (tasks,) = blocks("jsonl")
    Path("mine.jsonl").write_text(tasks)
    for line in dict.fromkeys(commands_that_start("finport ", "finbench ")):
        if line.startswith(("finport serve", "finbench simulated-model")):
            continue
        words = shlex.split(line.replace("8100", str(model_port)))
        if line.startswith("finport mcp"):  # speaks over the process's own input
            mcp = subprocess.run(
                words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            assert mcp.returncode == 0, mcp.stderr.decode()
            continue
        command = {"finport": finport, "finbench": finbench}[words[0]]
        done = CliRunner(env=environment).invoke(command, words[1:])  # saves 41 starts
        assert done.exit_code == 0, (line, done.output)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_commands_succeed(port: int, environment: dict[str, str]) -> None:
    for line in commands_that_start("curl "):
        words = shlex.split(line.replace("8000", str(port)))
        done = subprocess.run(words, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, line
        assert b'"ok":false' not in done.stdout, (line, done.stdout)
        assert done.stdout[:1] in (b"{", b"[", b"#") or "text/csv" in line, line


def test_the_python_example_prints_a_table(environment: dict[str, str], tmp_path: Path) -> None:
    example = blocks("python")[0]  # the other is an agent, which tests/finport tries
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={**environment, "FINPORT_CACHE_DIR": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("True simulated ('日期',")


@pytest.mark.parametrize("package", ["gateway", "bench"])
def test_help_imports_nothing_heavy(environment: dict[str, str], package: str) -> None:
    code = f"import sys, {package}.cli.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    heavy = {"aiohttp", "pydantic", "akshare", "pandas", "rich", "diskcache"}
    assert not heavy & set(done.stdout.split())
