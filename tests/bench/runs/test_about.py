"""Run directories that somebody changed by hand: each command names what is wrong, none breaks."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli.main import main

RUN = ("run", "starter", "--upstream", "simulated", "--agent", "scripted", "--out", "out")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("score", "out"),
    ("report", "out", "--out", "page.html"),
    ("compare", "out", "whole"),
    ("compare", "whole", "out", "--json"),
    ("export", "out", "--format", "parquet", "--out", "p", "--force"),
    ("export", "out", "--format", "openinference", "--out", "o.jsonl", "--force"),
    ("export", "out", "--format", "atif", "--out", "a.jsonl", "--force"),
    ("export", "out", "--format", "fintoolbench", "--out", "f.jsonl", "--force"),
    (*RUN, "--episodes", "8", "--resume"),
)

ODD: tuple[str, ...] = (
    *("null", "true", "-1", "1e308", "NaN", "1e400", str(10**40), '"text"', r'"\ud800"'),
    *("[]", "[1]", "{}", '{"a": {"b": [null]}}', "[" * 300 + "]" * 300, "[" * 10**5),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, [*RUN, "--episodes", "8"])
    assert done.exit_code == 0, done.output
    return folder / "out"


def texts(file: Path, each: int) -> Iterator[tuple[str, str]]:
    """The file with each field, down to those of its first call, replaced by so many odd values."""
    first, *others = (
        file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    )
    content = json.loads(first)
    places: list[list[Any]] = [[name] for name in content]
    for name, value in content.items():
        if isinstance(value, dict):
            places += [[name, inner] for inner in value]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            places += [[name, 0], *([name, 0, inner] for inner in value[0])]
    for number, place in enumerate(places):
        for odd in (ODD[(each * number + n) % len(ODD)] for n in range(each)):
            changed = json.loads(first)
            within = changed
            for step in place[:-1]:
                within = within[step]
            within[place[-1]] = "@@"
            yield (
                f"{place} {odd[:20]}",
                "\n".join([json.dumps(changed).replace('"@@"', odd), *others, ""]),
            )
    for odd in ODD:
        yield odd[:20], "\n".join([odd, *others, ""])


@pytest.mark.parametrize("each", [1, pytest.param(len(ODD), marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl", "calls.jsonl"])
def test_no_content_of_a_file_breaks_a_command(name: str, each: int, whole: Path) -> None:
    shutil.copytree(whole, "whole")
    for number, (what, text) in enumerate(texts(whole / name, each)):
        shutil.rmtree("out", ignore_errors=True)
        shutil.copytree(whole, "out")
        Path("out", name).write_text(text)
        command = COMMANDS[number % len(COMMANDS)]
        done = CliRunner().invoke(main, command)
        assert isinstance(done.exception, SystemExit | None), (what, command, done.exception)
        assert done.exit_code in (0, 1), (what, command, done.output)
        said = (name, "would not compare", "run.json has digest")
        if done.exit_code:
            assert any(words in done.output for words in said), (what, command, done.output)


@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl", "calls.jsonl"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:4]))
def test_a_folder_in_place_of_a_file_is_named(
    name: str, command: tuple[str, ...], whole: Path
) -> None:
    for folder in ("whole", "out"):
        shutil.copytree(whole, folder)
    Path("out", name).unlink()
    Path("out", name).mkdir()
    done = CliRunner().invoke(main, command)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == (0 if name == "calls.jsonl" and not reads_calls(command) else 1)
    if done.exit_code:
        assert name in done.output


def reads_calls(command: tuple[str, ...]) -> bool:
    return not {"compare", "openinference", "atif", "fintoolbench"}.intersection(command)


def test_a_field_of_the_wrong_type_is_named(whole: Path) -> None:
    for name, field, said in (
        ("run.json", "parts", "run.json: not the settings of a run: parts: "),
        ("episodes.jsonl", "repeat", "episodes.jsonl:1: not a record: repeat: "),
        ("calls.jsonl", "elapsed_ms", "calls.jsonl:1: not a record: elapsed_ms: "),
    ):
        shutil.rmtree("out", ignore_errors=True)
        shutil.copytree(whole, "out")
        text = Path("out", name).read_text()
        first, *others = text.splitlines() if name != "run.json" else [text]
        changed = json.dumps(json.loads(first) | {field: {"a": []}})
        Path("out", name).write_text("\n".join([changed, *others, ""]))
        done = CliRunner().invoke(main, ("report", "out"))
        assert done.exit_code == 1
        assert said in done.output
