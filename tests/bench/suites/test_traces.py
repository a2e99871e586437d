"""FinToolBench's trace format: what is read from other people's files, and what is written."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.json_lines import IncompleteLineError
from bench.record import (
    EpisodeRecord,
    Judgement,
    ModelCallRecord,
    ToolCallRecord,
    ToolVerdict,
)
from bench.suites.fintoolbench.metrics import EpisodeOutcome
from bench.suites.suite import TraceFormatError
from bench.suites.traces import (
    PUBLIC,
    PUBLIC_CALL,
    read_trace,
    to_public,
)

LINE: dict[str, Any] = {
    "id": "openfindata_release_7",
    "source_dataset": "openfindata_release",
    "category": "stock_analysis",
    "question": "茅台？",
    "response": ["I look it up.", None],
    "tool_calls": [
        {"step": 1, "tool_name": "a", "parameters": {"symbol": "600519"}, "output": "[1]"},
        {"step": 2, "tool_name": "b", "parameters": {}, "output": '{"error": "no"}'},
    ],
    "error": None,
    "execution_result": "1685",
    "ground_truth": "1685.01",
    "setting": "full",
    "candidate_tools": ["a", "b", "c"],
    "select_tools": None,
}


def written(folder: Path, *lines: Any) -> Path:
    file = folder / "trace.jsonl"
    file.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    return file


def read(folder: Path, **changed: Any) -> EpisodeRecord:
    """The record of `LINE` with other values; `...` leaves a field out."""
    line = {name: value for name, value in {**LINE, **changed}.items() if value is not ...}
    (traced,) = read_trace(written(folder, line))
    return traced.record


def call(output: Any, step: Any = 1, **more: Any) -> dict[str, Any]:
    return {"step": step, "tool_name": "a", "parameters": {}, "output": output, **more}


def test_a_published_line_is_read_field_by_field(tmp_path: Path) -> None:
    (traced,) = read_trace(written(tmp_path, LINE))
    record = traced.record
    assert not traced.typed
    assert (record.id, record.episode, record.repeat) == (LINE["id"], f"{LINE['id']}.0", 0)
    for name in ("source_dataset", "category", "question", "setting", "execution_result"):
        assert getattr(record, name) == LINE[name]
    assert record.ground_truth == "1685.01"
    assert record.candidate_tools == ["a", "b", "c"]
    assert record.response == ["I look it up."]
    assert (record.error, record.ending, record.labelled_tools) == (None, "answer", [])
    assert [(c.step, c.tool_name, c.parameters, c.output) for c in record.tool_calls] == [
        (1, "a", {"symbol": "600519"}, "[1]"),
        (2, "b", {}, '{"error": "no"}'),
    ]
    assert [c.ok for c in record.tool_calls] == [True, False], "by the words of the output"


@pytest.mark.parametrize(
    ("output", "ok"),
    [
        ("[1, 2]", True),
        ("", True),
        (None, True),
        ("a forecast ERROR of 2 %", False),
        ("Exception: no", False),
        ("Traceback (most recent call last)", False),
        ({"error": "no"}, False),
        ({"error": ""}, True),
        ({"error": None, "rows": 3}, True),
        ({"note": "an error in words"}, True),
        (["error"], True),  # neither a text nor an object: no rule of the evaluator sees it
        (3, True),
    ],
)
def test_a_call_is_ok_unless_its_output_says_that_it_failed(
    tmp_path: Path, output: Any, ok: bool
) -> None:
    record = read(tmp_path, tool_calls=[call(output)])
    assert record.tool_calls[0].ok == ok
    outcome = EpisodeOutcome.of(record)
    assert outcome.passed == outcome.passed_text == ok


def test_a_recorded_outcome_is_better_than_words(tmp_path: Path) -> None:
    known = call("an error bar", ok=True, code=None), call("[]", ok=False, code="timeout")
    (traced,) = read_trace(written(tmp_path, {**LINE, "tool_calls": known}))
    assert traced.typed
    assert [c.ok for c in traced.record.tool_calls] == [True, False]
    (mixed,) = read_trace(written(tmp_path, {**LINE, "tool_calls": [*known, call("[]")]}))
    assert not mixed.typed


def test_calls_without_a_step_are_of_one_round(tmp_path: Path) -> None:
    without = [{**call("error"), "step": None}, {"tool_name": "a"}]
    record = read(tmp_path, tool_calls=without)
    assert [c.step for c in record.last_round] == [0, 0], "no step is step 0, as in the evaluator"


@pytest.mark.parametrize(
    ("changed", "question", "answer"),
    [
        ({"question": ..., "query": "Q"}, "Q", "1685"),
        ({"question": "", "query": "Q"}, "Q", "1685"),
        ({"query": "Q"}, "茅台？", "1685"),
        ({"execution_result": ..., "answer": "A"}, "茅台？", "A"),
        ({"execution_result": None, "answer": "A"}, "茅台？", "A"),
        ({"execution_result": {"price": 1}}, "茅台？", '{"price": 1}'),
        ({"execution_result": 0.5}, "茅台？", "0.5"),
    ],
)
def test_question_and_answer_have_two_names(
    tmp_path: Path, changed: dict[str, Any], question: str, answer: str
) -> None:
    record = read(tmp_path, **changed)
    assert (record.question, record.execution_result) == (question, answer)


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        (..., ""),
        (None, ""),
        ("nan", "nan"),
        (1.5, "1.5"),
        (0, "0"),
        ([{"criterium1": {"content": "增长", "score": "1"}}], None),
    ],
)
def test_a_gold_answer_may_be_anything(tmp_path: Path, gold: Any, text: str | None) -> None:
    found = read(tmp_path, ground_truth=gold).ground_truth
    if text is None:
        assert json.loads(found) == gold
    else:
        assert found == text


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    first, second = (t.record for t in read_trace(written(tmp_path, {}, {"tool_calls": None})))
    assert (first.id, second.id) == ("0", "1"), "their places"
    assert (first.question, first.tool_calls, first.candidate_tools) == ("", [], [])
    assert not EpisodeOutcome.of(second).invoked


def test_errors_of_any_kind_are_texts(tmp_path: Path) -> None:
    assert read(tmp_path, error="").error is None
    assert read(tmp_path, error=False).error is None
    failed = read(tmp_path, error={"code": 1})
    assert (failed.error, failed.ending) == ('{"code": 1}', "agent_error")
    assert not EpisodeOutcome.of(failed).passed


def test_lines_of_one_id_are_repeats(tmp_path: Path) -> None:
    episodes = [t.record for t in read_trace(written(tmp_path, LINE, LINE))]
    assert [(e.episode[-2:], e.repeat) for e in episodes] == [(".0", 0), (".1", 1)]


def test_what_python_writes_is_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    line = json.dumps({**LINE, "tool_calls": [call("[NaN]", parameters={"x": float("nan")})]})
    half = json.dumps({**LINE, "question": "half \ud83d"})
    file.write_text(f"\ufeff{line}\n\n{half}\n{json.dumps(LINE)}")  # no newline at the end
    first, second, _ = (traced.record for traced in read_trace(file))
    assert str(first.tool_calls[0].parameters) == "{'x': nan}"
    assert second.question == "half ?"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{]", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "not a JSON object"),
        ("null", "not a JSON object"),
        ({"tool_calls": {}}, "tool_calls: not a list"),
        ({"tool_calls": [3]}, "tool_calls.0: not an object"),
        ({"tool_calls": [call("", step="x")]}, "tool_calls.0.step: "),
        ({"tool_calls": [call(""), call("", parameters=[])]}, "tool_calls.1.parameters: "),
        ({"tool_calls": [call("", ok="perhaps")]}, "tool_calls.0.ok: "),
        ({"candidate_tools": "a"}, "candidate_tools: "),
        ({"candidate_tools": [{}]}, "candidate_tools.0: "),
        ({"episode": "t.0"}, "id: Field required"),  # of ours, and not whole
    ],
)
def test_what_can_not_be_read_is_named(tmp_path: Path, line: Any, problem: str) -> None:
    file = tmp_path / "trace.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    file.write_text(f"{json.dumps(LINE)}\n{text}\n")
    with pytest.raises(TraceFormatError) as raised:
        list(read_trace(file))
    assert f"trace.jsonl:2: {problem}" in str(raised.value)


def test_a_score_that_metrics_can_not_count_is_named(tmp_path: Path) -> None:
    ours = {**asdict(read(tmp_path)), "judgement": {"judge": "j", "kind": "free_text"}}
    for score, fits in ((0.5, True), (0.7, False), (7, False), (float("nan"), False)):
        file = written(tmp_path, {**ours, "judgement": {**ours["judgement"], "scores": [score]}})
        if fits:
            assert len(list(read_trace(file, lambda _: (0, 0.5, 1)))) == 1
        else:
            with pytest.raises(TraceFormatError, match=r"jsonl:1: judgement\.scores(\.0)?: "):
                list(read_trace(file, lambda _: (0, 0.5, 1)))


def test_a_torn_last_line_is_told_after_the_others(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(f"{json.dumps(LINE)}\n{json.dumps(LINE)[:40]}")
    episodes = read_trace(file)
    assert next(episodes).record.id == LINE["id"]
    with pytest.raises(IncompleteLineError, match=r"trace\.jsonl:2"):
        next(episodes)
    file.write_text(json.dumps(LINE)[:40])
    with pytest.raises(TraceFormatError, match=r"trace\.jsonl:1: not JSON"):
        list(read_trace(file))
    with pytest.raises(TraceFormatError, match="No such file"):
        list(read_trace(tmp_path / "none"))


words = st.text(st.characters(codec="utf-8"), max_size=8)
objects = st.dictionaries(words, st.integers(-9, 9) | words | st.none(), max_size=2)
calls = st.builds(
    ToolCallRecord,
    step=st.integers(1, 5),
    tool_name=words,
    parameters=objects,
    output=words | objects,
    ok=st.booleans(),
    code=st.none() | words,
    fault=st.none() | words,
    source=st.none() | words,
    call_id=words,
    elapsed_ms=st.floats(0, 1e6),
    at=st.floats(0, 2e9),
    observed=st.none() | words,
)
verdicts = st.builds(ToolVerdict, words, *[st.none() | st.booleans()] * 3)
episodes = st.builds(
    EpisodeRecord,
    **dict.fromkeys(("episode", "id", "source_dataset", "category", "question"), words),
    **dict.fromkeys(("setting", "ground_truth", "execution_result"), words),
    repeat=st.integers(0, 9),
    candidate_tools=st.lists(words, max_size=2),
    started_at=st.floats(0, 2e9),
    elapsed_ms=st.floats(0, 1e6),
    tool_calls=st.lists(calls, max_size=3),
    response=st.lists(words, max_size=2),
    error=st.none() | words,
    labelled_tools=st.lists(words, max_size=2),
    model_calls=st.lists(
        st.builds(ModelCallRecord, st.just(1), words, words, st.just(1.5), st.just(2.5)), max_size=2
    ),
    judgement=st.none()
    | st.builds(
        Judgement,
        words,
        words,
        st.lists(st.sampled_from([0.0, 0.5, 1.0])),
        st.integers(0, 3),
        st.lists(verdicts, max_size=2),
    ),
)


@settings(max_examples=100)
@given(st.lists(episodes, min_size=1, max_size=3))
def test_ours_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, records: list[EpisodeRecord]
) -> None:
    file = tmp_path_factory.mktemp("ours") / "episodes.jsonl"
    file.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    again = list(read_trace(file))
    assert [traced.record for traced in again] == records
    assert all(traced.typed for traced in again)


@settings(max_examples=100)
@given(episodes)
def test_what_is_written_has_the_published_fields_and_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, record: EpisodeRecord
) -> None:
    public = to_public(record)
    assert tuple(public) == PUBLIC
    assert all(tuple(made) == PUBLIC_CALL for made in public["tool_calls"])
    (traced,) = read_trace(written(tmp_path_factory.mktemp("public"), public))
    expected = {**public, "id": public["id"] or "0", "error": record.error or None}
    assert to_public(traced.record) == expected
