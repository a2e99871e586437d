"""The set of cases: the same from the same seed, and every case can be kept."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.compression.baselines import Plain
from bench.compression.build import build
from bench.compression.case import KINDS, LANGUAGES, Case, part_of
from bench.compression.sources import ASSETS, SourceError
from bench.compression.wordings import questions
from tests.support.checkout import INVESTORBENCH

SOME = 60


def made(*, seed: int = 0, folder: Path | None = None, most: int = SOME) -> list[Case]:
    return asyncio.run(build(seed, "development", folder, most))


def as_lists(cases: list[Case]) -> list[list[object]]:
    return [[case.id, case.question, repr(case.needed)] for case in cases]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return made()


@pytest.fixture(scope="module")
def asset_cases() -> list[Case]:
    if not INVESTORBENCH.is_dir():
        pytest.skip("needs InvestorBench's files beside the checkout")
    with_assets = made(folder=INVESTORBENCH, most=300)
    return [case for case in with_assets if case.answer.group.startswith("investorbench/")]


def test_cases_follow_from_the_seed_in_another_process_too(cases: list[Case]) -> None:
    code = (
        "import asyncio, json; from bench.compression.build import build;"
        f"cases = asyncio.run(build(0, 'development', None, {SOME}));"
        "print(json.dumps([[c.id, c.question, repr(c.needed)] for c in cases]))"
    )
    again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(again.stdout) == as_lists(cases)
    assert as_lists(made(seed=1, most=20)) != as_lists(cases[:20])


def test_cases_are_distinct_and_in_both_languages(cases: list[Case]) -> None:
    assert len({case.id for case in cases}) == len(cases) == SOME
    assert {case.language for case in cases} == set(LANGUAGES)
    assert all("{" not in case.question for case in cases)


def test_whole_answers_keep_what_every_question_needs(cases: list[Case]) -> None:
    assert [case.id for case in cases if not is_kept_whole(case)] == []


def is_kept_whole(case: Case) -> bool:
    plain = Plain(case.answer)
    texts = [plain.json, plain.text, *(["\n".join(plain.rows)] if plain.rows else [])]
    return all(case.needed.kept_in(text) for text in texts)


def test_cases_over_assets_need_what_their_files_say(asset_cases: list[Case]) -> None:
    assert [case.id for case in asset_cases if not is_kept_whole(case)] == []
    kinds = {case.kind for case in asset_cases}
    assert kinds == {*KINDS} - {"code_cell", "item_field"}
    groups = {case.answer.group for case in asset_cases}
    assert groups <= {f"investorbench/{asset}" for asset in ASSETS}


def test_no_group_is_in_both_parts(cases: list[Case]) -> None:
    assert {part_of(case.answer.group, 0) for case in cases} == {"development"}
    held_apart = asyncio.run(build(0, "held-apart", None, 20))
    assert {part_of(case.answer.group, 0) for case in held_apart} == {"held-apart"}


def test_every_kind_has_twenty_wordings_in_each_language() -> None:
    for kind in KINDS:
        for language in LANGUAGES:
            assert len(set(questions()[kind, language])) >= 20, (kind, language)


def test_a_file_of_another_kind_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="InvestorBench's files are wanted"):
        made(folder=tmp_path)
    for asset in ASSETS:
        (tmp_path / f"{asset}.json").write_text('{"2024-01-02": {"close": 1}}')
    with pytest.raises(SourceError, match=r"2024-01-02.*InvestorBench's files are wanted"):
        made(folder=tmp_path)
