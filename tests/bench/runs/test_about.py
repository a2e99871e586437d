"""Run directories that somebody changed by hand: each command names what is wrong, none breaks.
`run.json` of an older or a newer release is read, and written again as it was.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from bench.runs.about import RunDirectoryError, RunInfo
from bench.runs.directory import RunDirectory

RUN = ("run", "starter", "--upstream", "simulated", "--agent", "scripted", "--out", "out")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("score", "out"),
    ("report", "out", "--out", "page.html", "--force"),
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


@pytest.fixture
def copied(whole: Path) -> Path:
    """The run as `out` and as `whole` in the working directory."""
    for folder in ("whole", "out"):
        shutil.copytree(whole, folder)
    return Path("out")


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


def link(path: Path) -> None:
    if path.name == "run.json":
        Path("moved").write_text("no JSON")
    path.symlink_to(Path("moved").absolute())


@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl", "calls.jsonl"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:4]))
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (link, "it is a symbolic link, which is not followed"),
    ],
)
def test_what_is_no_file_of_a_run_is_named_and_not_read(
    make: Callable[[Path], None], why: str, name: str, command: tuple[str, ...], copied: Path
) -> None:
    (copied / name).rename("moved")
    make(copied / name)
    done = CliRunner().invoke(main, command)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == 1
    assert f"{name}: {why}" in done.output


RESUME = (*RUN, "--episodes", "9", "--resume")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("report.html", ("report", "out")),
        ("report.html", ("report", "out", "--force")),
        ("report.html", ("report", "out", "--out", "out/report.html", "--force")),
        ("e.jsonl", ("export", "out", "--format", "atif", "--out", "out/e.jsonl", "--force")),
        *((name, RESUME) for name in ("run.json", "metrics.json", "calls.jsonl", "episodes.jsonl")),
    ],
)
def test_a_link_in_a_run_that_came_from_elsewhere_is_not_written_through(
    name: str, command: tuple[str, ...], copied: Path
) -> None:
    held = (copied / name).read_bytes() if (copied / name).exists() else b"held"
    Path("mine").write_bytes(held)
    (copied / name).unlink(missing_ok=True)
    (copied / name).symlink_to(Path("mine").absolute())
    done = CliRunner().invoke(main, command)
    assert done.exit_code == (2 if command[0] == "export" else 1)
    assert Path("mine").read_bytes() == held
    assert f"{name}: it is a symbolic link" in done.stderr


def test_a_link_to_a_folder_in_a_run_is_not_written_through(copied: Path) -> None:
    Path("mine").mkdir()
    Path("mine/a.json").write_text("mine")
    (copied / "folder").symlink_to(Path("mine").absolute())
    for form, out in (("atif", "out/folder"), ("openinference", "out/folder/e.jsonl")):
        command = ("export", "out", "--format", form, "--out", out, "--force")
        done = CliRunner().invoke(main, command)
        assert (done.exit_code, os.listdir("mine")) == (2, ["a.json"])
        assert "out/folder: it is a symbolic link" in done.stderr


def test_a_link_that_the_user_names_elsewhere_is_followed_with_force(whole: Path) -> None:
    Path("page.html").touch()
    Path("link.html").symlink_to("page.html")
    assert CliRunner().invoke(main, ("report", str(whole), "--out", "link.html")).exit_code == 1
    command = ("report", str(whole), "--out", "link.html", "--force")
    assert CliRunner().invoke(main, command).exit_code == 0
    assert (Path("link.html").is_symlink(), Path("page.html").stat().st_size > 0) == (True, True)


def test_records_that_are_moved_away_go_through_no_link(copied: Path) -> None:
    Path("mine").write_text("precious")
    calls = copied / "calls.jsonl"
    calls.write_text("".join(calls.read_text().splitlines(keepends=True)[3:]))
    names = ("calls.jsonl", "episodes.jsonl")
    before = [(copied / name).read_bytes() for name in names]
    (copied / "abandoned.jsonl").symlink_to(Path("mine").absolute())
    done = CliRunner().invoke(main, [*RESUME, "--accept-changes"])
    assert (done.exit_code, Path("mine").read_text()) == (1, "precious")
    assert "abandoned.jsonl: it is a symbolic link" in done.stderr
    assert [(copied / name).read_bytes() for name in names] == before


def test_a_new_run_is_not_written_through_a_link() -> None:
    Path("out").mkdir()
    Path("mine").touch()
    Path("out/episodes.jsonl").symlink_to(Path("mine").absolute())
    done = CliRunner().invoke(main, [*RUN, "--episodes", "2"])
    assert (done.exit_code, Path("mine").stat().st_size) == (1, 0)
    assert "episodes.jsonl: it is a symbolic link" in done.stderr


def test_a_copy_of_a_run_by_hard_links_stays_what_it_is(whole: Path) -> None:
    shutil.copytree(whole, "out")
    shutil.copytree("out", "copy", copy_function=os.link)
    done = CliRunner().invoke(main, RESUME)
    assert (done.exit_code, "calls.jsonl: it has another name too" in done.stderr) == (1, True)
    for file in whole.iterdir():
        assert Path("copy", file.name).read_bytes() == file.read_bytes()


CHANGED = "the files are not those that the run left: run.json has digest "


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=lambda command: " ".join(command[:4]))
def test_files_that_were_changed_after_the_run_are_told(
    command: tuple[str, ...], copied: Path
) -> None:
    assert CHANGED not in CliRunner().invoke(main, command).stderr
    file = copied / "episodes.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for left in (lines * 2, lines[:-1], []):
        file.write_text("".join(left))
        done = CliRunner().invoke(main, command)
        assert done.stderr.count(f"finbench: out: {CHANGED}") == 1, done.output
        compared_with_nothing = command[0] == "compare" and not left and "whole" in command
        code = {"score": 1, "compare": 2 if compared_with_nothing else 0}.get(command[0], 0)
        assert done.exit_code == code


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=lambda command: " ".join(command[:4]))
def test_of_a_run_that_was_killed_each_episode_counts_once_and_changes_are_told(
    command: tuple[str, ...], copied: Path
) -> None:
    about, file = json.loads((copied / "run.json").read_text()), copied / "episodes.jsonl"
    (copied / "run.json").write_text(
        json.dumps({**about, "ended": "interrupted", "accepted": ["x"]})
    )
    text = file.read_text()
    file.write_text(text + text.splitlines(keepends=True)[-1] * 5 + '{"episode": ')
    done = CliRunner().invoke(main, command)
    assert "out: the run has not ended" in done.stderr
    assert "out: the run went on although x" in done.stderr
    assert "out/episodes.jsonl: the last line is incomplete, and is left out" in done.stderr
    if command == ("compare", "out", "whole"):
        assert f"by {len(text.splitlines())} episodes of each" in done.stdout
    file.write_text(text.replace('"ok":true', '"ok":false', 1))
    done = CliRunner().invoke(main, command)
    assert "the files are not those that the run left: episodes.jsonl has other" in done.stderr


def test_scores_that_no_judge_gives_and_judges_that_differ_are_refused(copied: Path) -> None:
    file = copied / "episodes.jsonl"
    whole = file.read_text()
    named = whole.replace('"judge":"rules"', '"judge":"other"', 1)
    file.write_text(named)
    for command in (COMMANDS[0], COMMANDS[2]):
        done = CliRunner().invoke(main, command)
        assert (done.exit_code, "judgements of several judges" in done.stderr) == (1, True), command
    file.write_text(re.sub(r'"scores":\[[^]]*\]', '"scores":[5]', whole, count=1))
    for command in COMMANDS[:-1]:
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 1
        assert re.search(r"episodes.jsonl:\d+: not a record: judgement.scores", done.stderr), (
            command
        )


@pytest.mark.parametrize(
    "command", [("score", "out"), ("compare", "out", "out"), ("report", "out", "--force")]
)
def test_a_suite_that_is_not_the_runs_is_told(command: tuple[str, ...], whole: Path) -> None:
    shutil.copytree(whole, "out")
    Path("mine.py").write_text(
        "from bench.suites import BUILT_IN\n"
        "from bench.suites.fintoolbench.suite import LabelledTasks\n"
        "class Mine(LabelledTasks):\n"
        "    title = 'Mine'\n"
        "    @classmethod\n"
        "    def read(cls, name, dataset):\n"
        "        return super().read('starter', BUILT_IN['starter'])\n"
    )
    own = CliRunner().invoke(main, [*command, "--suite", "starter"])
    assert "was made for" not in own.stderr
    other = CliRunner().invoke(main, [*command, "--suite", "mine:Mine"])
    assert "out: the run was made for suite starter, and is read as one of mine:Mine" in (
        other.stderr
    ), other.output


def run_json(folder: Path, text: str) -> Path:
    (folder / "run.json").write_text(text)
    return folder


def test_a_file_that_says_little_has_defaults_and_still_says_no_more(tmp_path: Path) -> None:
    info = RunInfo.read(run_json(tmp_path, '\ufeff{"suite": "starter", "started_at": 5}'))
    assert (info.suite, info.started_at) == ("starter", 5.0)
    assert (info.agent, info.snapshot, info.parts, info.first_errors) == ("", None, 1, {})
    assert info.content == {"suite": "starter", "started_at": 5}


def test_unknown_fields_are_kept_in_their_place(tmp_path: Path) -> None:
    info = RunInfo.read(run_json(tmp_path, '{"z": [1], "suite": "s", "a": null}'))
    changed = info.updated({"suite": "t", "parts": 2})
    assert [*changed.content.items()] == [("z", [1]), ("suite", "t"), ("a", None), ("parts", 2)]
    assert info.suite == "s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"seed": "1"}', "not the settings of a run: seed: "),
        ('{"parts": 0}', "not the settings of a run: parts: "),
        ('{"suite": null}', "not the settings of a run: suite: "),
        ('{"limits": {"calls": "many"}}', "not the settings of a run: limits.calls: "),
        ("[]", "not the settings of a run"),
        ('{"suite": ', "not JSON: "),
    ],
)
def test_a_wrong_type_in_run_json_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError) as raised:
        RunInfo.read(run_json(tmp_path, text))
    assert str(raised.value).startswith(f"{tmp_path / 'run.json'}: {said}")


@pytest.mark.anyio
async def test_a_run_writes_what_it_was_told_in_that_order(tmp_path: Path) -> None:
    async with RunDirectory.open(tmp_path / "run", {"suite": "s", "own": {"b": 1}}) as run:
        run.about = run.about.updated({"upstream": "live"})
        await run.complete({"took_s": 2})
    written = (tmp_path / "run" / "run.json").read_text()
    digest = RunInfo.read(tmp_path / "run").digest
    assert written.startswith(
        '{\n  "suite": "s",\n  "own": {\n    "b": 1\n  },\n  "ended": "complete",\n'
        f'  "upstream": "live",\n  "took_s": 2,\n  "digest": "{digest}",\n  "files": {{\n'
    )


@pytest.mark.anyio
async def test_what_no_reader_would_take_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"^run\.json: not the settings of a run: seed: "):
        async with RunDirectory.open(tmp_path / "run", {"seed": 2**60}):
            pass
    assert not (tmp_path / "run").exists()
