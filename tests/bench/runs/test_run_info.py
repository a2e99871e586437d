"""`run.json`: what an older or a newer release wrote is read, and written again as it was."""

from pathlib import Path

import pytest

from bench.runs.about import RunDirectoryError, RunInfo
from bench.runs.directory import RunDirectory

pytestmark = pytest.mark.anyio


def run_json(folder: Path, text: str) -> Path:
    (folder / "run.json").write_text(text)
    return folder


def test_a_file_that_says_little_has_defaults_and_still_says_no_more(tmp_path: Path) -> None:
    info = RunInfo.read(run_json(tmp_path, '{"suite": "starter", "started_at": 5}'))
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
def test_a_field_of_the_wrong_type_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError) as raised:
        RunInfo.read(run_json(tmp_path, text))
    assert str(raised.value).startswith(f"{tmp_path / 'run.json'}: {said}")


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


async def test_what_no_reader_would_take_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"^run\.json: not the settings of a run: seed: "):
        async with RunDirectory.open(tmp_path / "run", {"seed": 2**60}):
            pass
    assert not (tmp_path / "run").exists()
