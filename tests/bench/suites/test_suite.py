from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from bench.suites import load_suite
from bench.suites.suite import SuiteError
from manifests import Catalog, Domain, Signature


def test_the_starter_suite_covers_both_sources_and_all_ten_domains(catalog: Catalog) -> None:
    suite = load_suite("starter")
    assert len(suite.tasks) >= 60
    assert len({task.id for task in suite.tasks}) == len(suite.tasks)
    assert len({task.question for task in suite.tasks}) == len(suite.tasks)
    categories = Counter(task.category for task in suite.tasks)
    assert set(categories) == set(get_args(Domain))
    sources: Counter[str] = Counter()
    for task in suite.tasks:
        assert task.tools, "every question needs a tool"
        for call in task.tools:
            manifest = catalog.get(call.name)
            assert manifest is not None
            assert manifest.unavailable is None
            assert manifest.intent_type != "transactional"
            Signature(manifest).bind(call.arguments)
            sources[manifest.source] += 1
    assert min(sources["rapidapi"], sources["akshare"]) >= 30


def test_an_unknown_suite_and_a_bad_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        SuiteError,
        match="no suite is named 'nothing'; there are: finova, finova-sample, fintoolbench",
    ):
        load_suite("nothing")
    bad = tmp_path / "mine.jsonl"
    bad.write_text('{"id": "1", "category": "x", "question": "?", "tools": []}\n{"id": 1}\n')
    with pytest.raises(SuiteError, match=r"mine\.jsonl:2: id"):
        load_suite("mine", bad)
    line = '{"id": "1", "category": "x", "question": "a\u2028b", "tools": []}'
    bad.write_text(f"\ufeff{line}\n\n")
    assert load_suite("mine", bad).tasks[0].question == "a\u2028b"
    bad.write_text(f"{line}\n{line}\n")
    with pytest.raises(SuiteError, match=r"mine\.jsonl:2: id: '1' is the id of line 1 too"):
        load_suite("mine", bad)
    bad.write_bytes(b"\xff\n")
    with pytest.raises(SuiteError, match=r"mine\.jsonl:1"):
        load_suite("mine", bad)
    with pytest.raises(SuiteError, match="is no name for a suite"):
        load_suite("../mine", bad)
    bad.write_text("")
    with pytest.raises(SuiteError, match=r"mine\.jsonl holds no tasks"):
        load_suite("mine", bad)
