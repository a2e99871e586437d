"""Deterministic runs: the same agent, seed and snapshot give the same run digest."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.runs.digest import run_digest
from bench.runs.directory import RunDirectoryError
from tests.support.commands import finbench
from tests.support.runs import lines_of


def run(out: str, *options: str) -> dict[str, Any]:
    common = ("run", "starter", "--episodes", "108", "--snapshot", "s.snap", "--out", out)
    done = finbench(*common, *options)
    assert done.returncode == 0, done.stderr
    about: dict[str, Any] = json.loads(Path(out, "run.json").read_text())
    assert f"run digest: {about['digest']}" in done.stdout
    assert f"snapshot: {about['snapshot']} ({about['mode']})" in done.stdout
    return about


def test_two_offline_runs_have_one_digest_and_another_seed_has_another() -> None:
    recorded = run("recorded", "--mode", "record", "--upstream", "simulated", "--seed", "7")
    offline = ("--mode", "offline", "--seed", "7")
    one = run("one", *offline, "--concurrency", "200")
    other = run("other", *offline, "--concurrency", "5")
    assert one["digest"] == other["digest"]
    assert one["snapshot"] == other["snapshot"] == recorded["snapshot"]
    assert one["digest"] in finbench("score", "other").stdout
    sources = {call["source"] for call in lines_of("one/calls.jsonl") if call["ok"]}
    assert sources == {"replayed"}
    assert not [call for call in lines_of("one/calls.jsonl") if call["code"] == "not_in_snapshot"]
    assert run("third", "--mode", "offline", "--seed", "8")["digest"] != one["digest"]


def test_when_a_judge_was_asked_and_how_long_it_took_makes_no_other_digest(tmp_path: Path) -> None:
    digests = set()
    for at, tokens in ((1.0, 5), (2.0, 5), (2.0, 6)):
        asked = {"purpose": "judge", "at": at, "elapsed_ms": at, "output_tokens": tokens}
        judgement = {"judge": "llm:m", "model_calls": [asked]}
        digests.add(write(tmp_path, [], [{"episode": "e", "judgement": judgement}]))
    assert len(digests) == 2


def test_what_a_suite_adds_to_a_record_counts_where_there_is_any(tmp_path: Path) -> None:
    plain = write(tmp_path, [], [{"episode": "e", "judgement": {"judge": "rules"}}])
    empty = {"labelled_arguments": [], "difficulty": ""}
    judgement = {"judge": "rules", "by_metric": {}, "extracted": ""}
    assert write(tmp_path, [], [{"episode": "e", "judgement": judgement, **empty}]) == plain
    for changed in (
        {"labelled_arguments": [{"symbol": "AAPL"}]},
        {"labelled_arguments": [{"symbol": "MSFT"}]},
        {"difficulty": "hard"},
        {"judgement": {**judgement, "extracted": "A"}},
        {"judgement": {**judgement, "by_metric": {"TaskRelevance": [4.0]}}},
    ):
        assert write(tmp_path, [], [{"episode": "e", "judgement": judgement, **changed}]) != plain


def test_mode_and_snapshot_are_for_an_embedded_gateway() -> None:
    options = ("--mode", "offline", "--snapshot", "s", "--gateway", "http://127.0.0.1:9")
    done = finbench("run", "starter", *options)
    assert done.returncode == 2
    assert "for the embedded gateway" in done.stderr
    gone = finbench("run", "starter", "--mode", "offline", "--snapshot", "nowhere", "--out", "out")
    assert gone.returncode == 1
    assert "nowhere: No such file" in gone.stderr
    assert not Path("out").exists(), "the corrected command may take the name"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def write(folder: Path, calls: list[dict[str, Any]], episodes: list[dict[str, Any]]) -> str:
    for name, records in (("calls", calls), ("episodes", episodes)):
        text = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / f"{name}.jsonl").write_text(text)
    return run_digest(folder)


records = st.lists(
    st.fixed_dictionaries({"tool": st.sampled_from("ab"), "rows": st.integers(0, 3)}), max_size=6
)


@given(records, records, st.randoms(use_true_random=False))
def test_order_and_times_do_not_matter_and_all_else_does(
    folder: Path,
    calls: list[dict[str, Any]],
    episodes: list[dict[str, Any]],
    luck: random.Random,
) -> None:
    digest = write(folder, calls, episodes)
    timed = [
        {"call_id": str(luck.random()), "at": luck.random(), "elapsed_ms": luck.random(), **call}
        for call in luck.sample(calls, len(calls))
    ]
    assert write(folder, timed, luck.sample(episodes, len(episodes))) == digest
    assert write(folder, [*calls, {"tool": "a", "rows": 9}], episodes) != digest
    assert write(folder, calls, [*episodes, {"tool": "a", "rows": 9}]) != digest
    if canonical(calls) != canonical(episodes):
        assert write(folder, episodes, calls) != digest


def canonical(content: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(record, sort_keys=True) for record in content)


def test_a_torn_last_line_is_left_out_and_nonsense_is_told(tmp_path: Path) -> None:
    digest = write(tmp_path, [{"tool": "a"}], [])
    with (tmp_path / "calls.jsonl").open("a") as file:
        file.write('{"tool": "b"')
    assert run_digest(tmp_path) == digest
    (tmp_path / "calls.jsonl").write_text("[]\n")
    with pytest.raises(RunDirectoryError, match=r"calls\.jsonl:1: not a record"):
        run_digest(tmp_path)
