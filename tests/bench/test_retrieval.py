from pathlib import Path

import pytest

from bench.retrieval import DatasetError, measure, read_questions, variants
from bench.suite import BUILT_IN
from manifests import Catalog

QUESTIONS = Path(__file__).parents[3] / "shared" / "datasets" / "fintoolbench" / "questions.jsonl"


@pytest.mark.skipif(not QUESTIONS.is_file(), reason="the FinToolBench questions are not here")
def test_recall_at_20_of_the_published_questions_is_at_least_030(catalog: Catalog) -> None:
    questions = read_questions(QUESTIONS)
    results = {name: measure(s, questions) for name, s in variants(catalog).items()}
    best = results["embedded default"]
    assert best["questions"] == 295
    assert best["recall@20"] >= 0.30
    assert best["recall@5"] < best["recall@20"] < best["recall@50"]
    for name, result in results.items():
        assert result["recall@20"] <= best["recall@20"], name


def test_recall_is_counted_by_the_labels(tmp_path: Path, catalog: Catalog) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        '{"query": "Chinese and US treasury yields", "tools": [{"name": "bond_zh_us_rate"},'
        ' {"name": "no_such_tool"}]}\n'
        '{"question": "zzzzz", "select_tools": ["bond_zh_us_rate"]}\n'
    )
    result = measure(catalog.search, read_questions(file))
    assert (result["recall@20"], result["micro_recall@20"]) == (0.25, 0.3333)


def test_our_own_questions_are_found(catalog: Catalog) -> None:
    result = measure(catalog.search, read_questions(BUILT_IN / "starter.jsonl"))
    assert result["recall@20"] > 0.8


@pytest.mark.parametrize("text", ["{", '{"question": "x"}', '{"tools": ["a"]}', "3", ""])
def test_a_file_without_labels_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(text)
    with pytest.raises(DatasetError, match=r"mine\.jsonl"):
        read_questions(file)
