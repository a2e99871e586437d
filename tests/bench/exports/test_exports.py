"""Exports of a run, read back and held against its own files and the rules of each format."""

import json
import os
import re
import sys
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from bench.cli.export import FORMATS
from bench.cli.main import main
from bench.exports import parquet as parquet_export
from bench.exports.atif import file_name
from bench.record import (
    EpisodeRecord,
    Judgement,
    ModelCallRecord,
    ToolCallRecord,
    ToolVerdict,
)
from gateway import CallRecord
from tests.support.commands import finbench_in
from tests.support.runs import write_run

NO_AKSHARE = ",".join(f"starter_{n}" for n in (2, 3, 4, 6, 10, 14, 21, 22, 27, 28))
"""Tasks whose tools are called without a process that imports AkShare."""

AT = 1_700_000_000.123
HOSTILE = ["../../escaped", "/etc/x", "a/b", "..", "", "nul\0", "x" * 300, "日本.0", "a.0~", "-rf"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the scripted agent, six episodes a task."""
    folder = tmp_path_factory.mktemp("exports")
    options = (
        *("--upstream", "simulated", "--judge", "none", "--out", "run", "--seed", "4"),
        *("--tasks", NO_AKSHARE, "--wrong-tool-rate", "0"),
    )
    done = finbench_in(folder, "run", "starter", "--episodes", "60", *options)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run of an agent with a model, one episode for each way to end."""
    return write(tmp_path / "made", episodes())


def write(folder: Path, records: list[EpisodeRecord], **more: Any) -> Path:
    about = {"model": "m", "suite": "s", "temperature": 0.5, "finport": "1", "digest": "d"}
    return write_run(folder, records, **{**about, "started_at": AT, **more})


def episode(name: str, **more: Any) -> EpisodeRecord:
    given: dict[str, Any] = {
        "question": "何时?",
        "setting": "llm",
        "ground_truth": "3",
        "candidate_tools": ["a", "b"],
        "elapsed_ms": 2500.5,
        **more,
    }
    return EpisodeRecord(name, name, 0, "d", "c", started_at=AT, **given)


def tool_call(step: int, *, ok: bool = True, **more: Any) -> ToolCallRecord:
    told: dict[str, Any] = {"code": None, "fault": None, "source": "live", "output": "[1,2]"}
    if not ok:
        told = {"code": "timeout", "fault": "tool", "source": None, "output": {"error": "boom"}}
    told |= {"call_id": f"c{step}", "elapsed_ms": 12.25, "at": AT + step, **more}
    return ToolCallRecord(step, "a", {"x": [1], "key": "[redacted]"}, ok=ok, **told)


def request(step: int, purpose: str = "act", **more: Any) -> ModelCallRecord:
    given = {"input_tokens": 10, "cached_tokens": 4, "output_tokens": 5, **more}
    return ModelCallRecord(step, purpose, "m", AT + step - 0.5, 3.5, **given)


def episodes() -> list[EpisodeRecord]:
    verdicts = [ToolVerdict("a", timeliness=True, domain=False), ToolVerdict("b", timeliness=True)]
    return [
        episode(
            "answered",
            tool_calls=[tool_call(1), tool_call(1, ok=False), tool_call(2, observed="short")],
            response=["first", "second", "and last"],
            execution_result="3",
            model_calls=[
                *(request(1, "constraints"), request(1), request(2, "reduce"), request(2)),
                request(3, "final", finish="stop"),
            ],
            judgement=Judgement("rules", "numeric", [1.0, 0.5], tools=verdicts),
        ),
        episode(
            "late",  # a call that ended after its episode, by what was rounded
            tool_calls=[tool_call(1, ok=False, call_id="", at=AT - 0.001, elapsed_ms=2_600.0)],
            model_calls=[request(1)],
            error="limit: 2.5 s have passed",
            ending="time",
        ),
        episode(
            "lost",
            model_calls=[request(1, error="503")],
            error="model: gone",
            ending="model_error",
        ),
        episode("empty", ending="empty"),
        episode("untimed", tool_calls=[tool_call(1, at=0.0)], execution_result="x"),
    ]


def export(run: Path, form: str, out: Path, *options: str) -> Result:
    arguments = ["export", str(run), "--format", form, "--out", str(out), *options]
    return CliRunner().invoke(main, arguments)


def exported(run: Path, form: str, out: Path) -> Path:
    done = export(run, form, out)
    assert done.exit_code == 0, done.output
    return out


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_parquet_has_every_record_with_its_values(run: Path, tmp_path: Path) -> None:
    out = exported(run, "parquet", tmp_path / "tables")
    calls, table = lines(run / "calls.jsonl"), parquet.read_table(out / "calls.parquet")
    assert table.num_rows == len(calls) > 60
    for row, call in zip(table.to_pylist(), calls, strict=True):
        at, arguments = row.pop("at"), row.pop("arguments")
        assert at == datetime.fromtimestamp(round(call.pop("at"), 3), UTC)
        assert json.loads(arguments) == call.pop("arguments")
        assert row == call
    told, table = lines(run / "episodes.jsonl"), parquet.read_table(out / "episodes.parquet")
    assert table.num_rows == len(told) == 60
    for row, record in zip(table.to_pylist(), told, strict=True):
        assert row.pop("started_at").timestamp() == record.pop("started_at")
        for call, was in zip(row.pop("tool_calls"), record.pop("tool_calls"), strict=True):
            assert call.pop("at").timestamp() == was.pop("at")
            assert json.loads(call.pop("parameters")) == was.pop("parameters")
            output, before = call.pop("output"), was.pop("output")
            assert output == before or json.loads(output) == before
            assert call == was
        arguments = row.pop("labelled_arguments")
        assert [json.loads(text) for text in arguments] == record.pop("labelled_arguments")
        for judgement in filter(None, (row["judgement"], record["judgement"])):
            judgement["by_metric"] = json.dumps(judgement["by_metric"]).strip('"')
        assert row == record
    metadata = parquet.read_schema(out / "calls.parquet").metadata
    assert json.loads(metadata[b"finport.run"]) == json.loads((run / "run.json").read_text())


def test_parquet_has_a_column_for_every_field(made: Path, tmp_path: Path) -> None:
    out = exported(made, "parquet", tmp_path / "tables")
    calls, told = (parquet.read_schema(out / f"{n}.parquet") for n in ("calls", "episodes"))

    def names(kind: Any) -> list[str]:
        return [field.name for field in fields(kind)]

    assert calls.names == names(CallRecord)
    assert told.names == names(EpisodeRecord)
    assert [f.name for f in told.field("tool_calls").type.value_type] == names(ToolCallRecord)
    assert [f.name for f in told.field("model_calls").type.value_type] == names(ModelCallRecord)
    assert [f.name for f in told.field("judgement").type] == names(Judgement)
    assert str(calls.field("at").type) == "timestamp[ms, tz=UTC]"
    first, *_, untimed = parquet.read_table(out / "episodes.parquet").to_pylist()
    verdict = {"tool": "a", "timeliness": True, "intent": None, "domain": False}
    assert first["judgement"]["tools"][0] == verdict
    assert [r["purpose"] for r in first["model_calls"]][2:4] == ["reduce", "act"]
    assert first["tool_calls"][1]["output"] == '{"error":"boom"}'
    assert untimed["tool_calls"][0]["at"] is None


def test_parquet_is_written_in_row_groups(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exported(run, "parquet", tmp_path / "whole")
    monkeypatch.setattr(parquet_export, "GROUP_BYTES", 5_000)
    pieces = exported(run, "parquet", tmp_path / "pieces")
    for name in ("calls.parquet", "episodes.parquet"):
        assert parquet.read_metadata(whole / name).num_row_groups == 1
        assert parquet.read_metadata(pieces / name).num_row_groups > 5
        assert parquet.read_table(pieces / name).equals(parquet.read_table(whole / name))


def test_without_pyarrow_its_extra_is_named(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export(made, "parquet", tmp_path / "tables")
    assert (done.exit_code, "pip install 'finport[parquet]'" in done.output) == (1, True)
    assert not (tmp_path / "tables").exists()


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    """Its attributes, each decoded by the one type that it names."""
    read = {"stringValue": str, "intValue": int, "doubleValue": float}
    found = {}
    for attribute in span["attributes"]:
        ((kind, value),) = attribute["value"].items()
        assert kind != "intValue" or isinstance(value, str), "64-bit numbers are texts"
        found[attribute["key"]] = read[kind](value)
    assert len(found) == len(span["attributes"])
    return found


def spans(file: Path) -> list[list[dict[str, Any]]]:
    """The spans of each line, which have been held against the rules of OTLP/JSON."""
    found = []
    for line in lines(file):
        ((resource,),) = line.values()
        assert set(line) == {"resourceSpans"}
        assert attributes(resource["resource"])["service.name"] == "finbench"
        (scoped,) = resource["scopeSpans"]
        made = scoped["spans"]
        root = made[0]
        for span in made:
            assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
            assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
            assert span["traceId"] == root["traceId"]
            assert span.get("parentSpanId") == (None if span is root else root["spanId"])
            assert span["name"]
            assert (span["kind"], span["status"]["code"] in (1, 2)) == (1, True)
            start, end = (int(span[f"{n}TimeUnixNano"]) for n in ("start", "end"))
            assert int(root["startTimeUnixNano"]) <= start <= end <= int(root["endTimeUnixNano"])
        found.append(made)
    ids = [span["spanId"] for made in found for span in made]
    assert len(set(ids)) == len(ids)
    assert len({made[0]["traceId"] for made in found}) == len(found)
    return found


def test_openinference_has_a_trace_for_each_episode(run: Path, tmp_path: Path) -> None:
    out = exported(run, "openinference", tmp_path / "spans.jsonl")
    told = lines(run / "episodes.jsonl")
    for made, record in zip(spans(out), told, strict=True):
        root, *tools = made
        assert attributes(root)["openinference.span.kind"] == "AGENT"
        assert attributes(root)["input.value"] == record["question"]
        assert attributes(root)["output.value"] == record["execution_result"]
        assert int(root["startTimeUnixNano"]) == round(record["started_at"] * 1e3) * 1_000_000
        for span, call in zip(tools, record["tool_calls"], strict=True):
            given = attributes(span)
            assert given["openinference.span.kind"] == "TOOL"
            assert given["tool.name"] == call["tool_name"]
            assert json.loads(given["tool.parameters"]) == call["parameters"]
            assert given["input.value"] == given["tool.parameters"]
            assert span["status"]["code"] == (1 if call["ok"] else 2)
            assert given.get("error.type") == call["code"]
            if not call["ok"]:
                assert span["status"]["message"] == call["output"]["error"]


ABOUTS: list[dict[str, Any]] = [{}, {"digest": "other"}, {"started_at": AT + 1}]


def test_openinference_names_an_episode_the_same_in_every_export(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"run{n}", episodes(), **about) for n, about in enumerate(ABOUTS)]
    first, other, later = (exported(run, "openinference", tmp_path / run.stem[-1]) for run in runs)
    assert exported(runs[0], "openinference", tmp_path / "again").read_bytes() == first.read_bytes()
    ids = [made[0]["traceId"] for file in (first, other, later) for made in spans(file)]
    assert len(set(ids)) == 3 * len(episodes()), "these are other runs"


def test_openinference_has_spans_of_models_and_evaluations(made: Path, tmp_path: Path) -> None:
    answered, late, lost, *_ = spans(exported(made, "openinference", tmp_path / "spans"))
    kinds = [attributes(span)["openinference.span.kind"] for span in answered]
    assert kinds == ["AGENT", *["LLM"] * 5, *["TOOL"] * 3]
    final = attributes(answered[5])
    names = ("prompt", "completion", "total", "prompt_details.cache_read")
    assert [final[f"llm.token_count.{name}"] for name in names] == [10, 5, 15, 4]
    assert (final["llm.model_name"], final["llm.finish_reason"]) == ("m", "stop")
    assert json.loads(final["llm.invocation_parameters"]) == {"temperature": 0.5, "seed": 0}
    assert attributes(answered[8])["finport.observed"] == "short"
    root = attributes(answered[0])
    assert (root["evaluations.0.evaluation.name"], root["evaluations.0.evaluation.score"]) == (
        *("SoftScore", 0.75),
    )
    labels = [root.get(f"evaluations.{n}.evaluation.label") for n in range(4)]
    assert labels == [None, "match", "mismatch", None]
    assert root["evaluations.2.evaluation.name"] == "domain"
    assert {root[f"evaluations.{n}.evaluation.annotator_kind"] for n in range(3)} == {"CODE"}
    for failed, ending in ((late, "time"), (lost, "model_error")):
        assert failed[0]["status"]["code"] == 2
        assert attributes(failed[0])["error.type"] == ending
    assert lost[1]["status"] == {"code": 2, "message": "503"}


AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
STEP = {
    *("step_id", "timestamp", "source", "message", "observation", "llm_call_count", "extra"),
    *AGENT_ONLY,
}


def held_against_the_rfc(trajectory: dict[str, Any]) -> dict[str, Any]:
    """The rules of ATIF v1.8, as its RFC and its authors' models have them."""
    assert trajectory["schema_version"] == "ATIF-v1.8"
    assert set(trajectory) <= {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes"),
        *("final_metrics", "extra"),
    }
    assert set(trajectory["agent"]) <= {"name", "version", "model_name", "extra"}
    assert {"name", "version"} <= set(trajectory["agent"])
    steps = trajectory["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    ids: list[str] = []
    for step in steps:
        assert set(step) <= STEP
        assert isinstance(step["message"], str)
        if "timestamp" in step:
            assert datetime.fromisoformat(step["timestamp"]).tzinfo is not None
        assert step["source"] == ("user" if step["step_id"] == 1 else "agent")
        assert step["source"] == "agent" or not AGENT_ONLY & set(step)
        if step.get("llm_call_count") == 0:
            assert not {"metrics", "reasoning_content"} & set(step)
        called = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        results = step.get("observation", {"results": []})["results"]
        assert [result["source_call_id"] for result in results] == called
        assert all(isinstance(result["content"], str) for result in results)
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", []))
        ids += called
    assert len(set(ids)) == len(ids)
    final = trajectory["final_metrics"]
    assert final["total_steps"] == len(steps)
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        told = [step["metrics"][name] for step in steps if "metrics" in step]
        assert final[f"total_{name}"] == sum(told)
    return trajectory


def test_atif_has_a_trajectory_for_each_episode(run: Path, tmp_path: Path) -> None:
    folder = exported(run, "atif", tmp_path / "trajectories")
    told = lines(run / "episodes.jsonl")
    assert {file.name for file in folder.iterdir()} == {f"{r['episode']}.json" for r in told}
    for record in told:
        text = (folder / f"{record['episode']}.json").read_text(encoding="utf-8")
        trajectory = held_against_the_rfc(json.loads(text))
        first, *rounds, last = trajectory["steps"]
        assert (first["message"], last["message"]) == (
            record["question"],
            record["execution_result"],
        )
        assert [c["function_name"] for s in rounds for c in s["tool_calls"]] == [
            call["tool_name"] for call in record["tool_calls"]
        ]
        assert len(rounds) == len({call["step"] for call in record["tool_calls"]})
        assert {step["llm_call_count"] for step in (*rounds, last)} == {0}, "it has no model"
        assert "simulated" in trajectory["notes"]
    as_lines = lines(exported(run, "atif", tmp_path / "trajectories.jsonl"))
    names = [record["episode"] for record in told]
    assert as_lines == [json.loads((folder / f"{name}.json").read_text()) for name in names]


def test_atif_has_what_models_took_and_what_agents_read(made: Path, tmp_path: Path) -> None:
    out = exported(made, "atif", tmp_path / "made.jsonl")
    answered, late, lost, empty, untimed = map(held_against_the_rfc, lines(out))
    _, first, second, last = answered["steps"]
    assert [step["message"] for step in (first, second, last)] == ["first", "second", "3"]
    assert last["extra"] == {"response": "and last"}
    assert [step["llm_call_count"] for step in (first, second, last)] == [2, 2, 1]
    assert first["metrics"]["prompt_tokens"] == 20
    assert [r["content"] for r in first["observation"]["results"]] == ["[1,2]", '{"error":"boom"}']
    (shortened,) = second["observation"]["results"]
    assert (shortened["content"], shortened["extra"]["output"]) == ("short", "[1,2]")
    assert answered["agent"]["model_name"] == "m"
    assert [step["source"] for step in late["steps"]] == ["user", "agent"], "it had no answer"
    assert late["extra"]["error"] == "limit: 2.5 s have passed"
    assert lost["steps"][-1]["llm_call_count"] == 1
    assert empty["steps"][-1]["message"] == ""
    assert "llm_call_count" not in empty["steps"][-1], "the agent noted no requests"
    assert ["timestamp" in step for step in untimed["steps"]] == [True, False, True]


def test_no_name_of_an_episode_leads_out_of_the_folder(tmp_path: Path) -> None:
    source = write(tmp_path / "hostile", [episode(name) for name in HOSTILE])
    out = exported(source, "atif", tmp_path / "deep" / "down" / "out")
    written = sorted(path for path in tmp_path.rglob("*") if path.suffix == ".json")
    assert [path.parent for path in written] == [*[out] * len(HOSTILE), source]
    told = [json.loads(path.read_text())["extra"]["episode"] for path in out.iterdir()]
    assert sorted(told) == sorted(HOSTILE)
    for path in out.iterdir():
        assert re.fullmatch(r"[A-Za-z0-9_~.-]{1,120}\.json", path.name)
        assert path.name[0] not in ".-"
    assert file_name("starter_0.12") == "starter_0.12.json"


def test_two_episodes_of_one_name_are_told(tmp_path: Path) -> None:
    source = write(tmp_path / "repeated", [episode("a"), episode("a")])
    done = export(source, "atif", tmp_path / "out")
    assert (done.exit_code, "two episodes want the file 'a.json'" in done.output) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"repeated"}


PUBLIC = {
    *("id", "source_dataset", "category", "question", "tool_calls", "response", "error"),
    *("execution_result", "ground_truth", "setting", "candidate_tools"),
}


def test_fintoolbench_has_the_fields_of_its_evaluator(run: Path, tmp_path: Path) -> None:
    out = lines(exported(run, "fintoolbench", tmp_path / "public.jsonl"))
    told = lines(run / "episodes.jsonl")
    passed = 0
    for trace, record in zip(out, told, strict=True):
        assert set(trace) == PUBLIC
        assert trace["execution_result"] == record["execution_result"]
        for call, was in zip(trace["tool_calls"], record["tool_calls"], strict=True):
            assert set(call) == {"step", "tool_name", "parameters", "output"}
            assert isinstance(call["output"], str) == was["ok"]
            assert was["ok"] or call["output"]["error"], "by that its evaluator knows it failed"
        last = max((call["step"] for call in trace["tool_calls"]), default=0)
        final = [str(c["output"]).lower() for c in trace["tool_calls"] if c["step"] == last]
        told_of = [word in text for text in final for word in ("error", "exception", "traceback")]
        passed += bool(final) and not any(told_of)
    metrics = json.loads((run / "metrics.json").read_text())
    assert passed / len(out) == pytest.approx(metrics["TESR_text"], abs=1e-6)
    ids = [trace["id"] for trace in out]
    assert len(set(ids)) == len(ids), "its evaluator keeps the last line of an id"
    assert {r["id"] for r in told if r["repeat"] == 0} <= set(ids)


@pytest.mark.parametrize("form", FORMATS)
def test_what_exists_is_replaced_on_demand_only(form: str, made: Path, tmp_path: Path) -> None:
    out = exported(made, form, tmp_path / "out")
    refused = export(made, form, out)
    assert (refused.exit_code, "--force replaces it" in refused.output) == (1, True)
    smaller = write(tmp_path / "smaller", episodes()[:1])
    assert export(smaller, form, out, "--force").exit_code == 0
    assert size(out) == size(exported(smaller, form, tmp_path / "fresh"))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"made", "smaller", "out", "fresh"}


def size(out: Path) -> int:
    return sum(f.stat().st_size for f in (out.iterdir() if out.is_dir() else [out]))


@pytest.mark.parametrize("form", FORMATS)
def test_a_broken_line_leaves_no_half_export(form: str, made: Path, tmp_path: Path) -> None:
    file = made / "episodes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"episode": 3}\n' + whole)
    done = export(made, form, tmp_path / "out")
    assert done.exit_code == 1
    assert "episodes.jsonl:6: not a record: " in done.output
    file.write_bytes(whole + b"{]\n" + whole)
    assert "episodes.jsonl:6: not a record" in export(made, form, tmp_path / "out").output
    assert {path.name for path in tmp_path.iterdir()} == {"made"}
    file.write_bytes(whole + whole[:50])
    assert export(made, form, tmp_path / "out").output.endswith("out: 5 episodes\n")


@pytest.mark.parametrize("form", ["parquet", "atif"])
def test_a_folder_with_files_of_others_is_never_replaced(
    form: str, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    assert export(made, form, tmp_path / "mine").exit_code == 0, "an empty folder may be filled"
    (tmp_path / "mine" / "notes.txt").touch()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "x.parquet").mkdir()
    for name, held in (("mine", "notes.txt"), ("theirs", "x.parquet")):
        done = export(made, form, tmp_path / name, "--force")
        assert (done.exit_code, f"holds {held!r}" in done.output) == (1, True)
    assert (tmp_path / "mine" / "notes.txt").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_never_takes_the_place_of_its_run(form: str, made: Path) -> None:
    before = {file.name: file.read_bytes() for file in made.iterdir()}
    for out in (made, made / "episodes.jsonl", made / ".." / "made" / "run.json"):
        assert export(made, form, out, "--force").exit_code == 2
    assert {file.name: file.read_bytes() for file in made.iterdir()} == before


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_never_takes_the_place_of_another_run(
    form: str, made: Path, tmp_path: Path
) -> None:
    other = write(tmp_path / "other", episodes())
    (tmp_path / "link.jsonl").symlink_to(other / "episodes.jsonl")
    (tmp_path / "market").mkdir()
    (tmp_path / "market" / "jnj.json").write_text("{}")
    before = {file.name: file.read_bytes() for file in other.iterdir()}
    for out in (other / "episodes.jsonl", other / "abandoned.jsonl", tmp_path / "link.jsonl"):
        done = export(made, form, out, "--force")
        assert (done.exit_code, "is a file of another run" in done.output) == (2, True)
    for out in (other, tmp_path / "market"):
        assert export(made, form, out, "--force").exit_code == 1
    assert {file.name: file.read_bytes() for file in other.iterdir()} == before
    assert (tmp_path / "market" / "jnj.json").exists()


def test_what_is_simulated_is_said_and_stands_in_the_export(run: Path, tmp_path: Path) -> None:
    said = "answers are simulated, so no figure tells of real tools; the agent is scripted, so none"
    tables = exported(run, "parquet", tmp_path / "tables")
    metadata = parquet.read_schema(tables / "calls.parquet").metadata
    assert metadata[b"finport.simulated"].decode().startswith(said)
    done = export(run, "openinference", tmp_path / "spans.jsonl")
    assert done.stderr.startswith(f"finbench: {run}: {said}")
    (resource, *_) = lines(tmp_path / "spans.jsonl")[0]["resourceSpans"]
    attributes = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
    assert attributes["finport.simulated"]["stringValue"].startswith(said)


def test_wrong_places_are_told_with_exit_code_1(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for form in FORMATS:
        done = export(made, form, tmp_path / "file" / "out")
        assert (done.exit_code, str(tmp_path / "file") in done.output) == (1, True), done.output
    for form in ("parquet", "atif"):
        assert "is a file; name a folder" in export(made, form, tmp_path / "file", "--force").output
    for form in ("openinference", "fintoolbench"):
        assert "is a folder; name a file" in export(made, form, made.parent, "--force").output
    os.mkfifo(tmp_path / "pipe")
    for form in ("openinference", "fintoolbench", "parquet"):
        assert export(made, form, tmp_path / "pipe", "--force").exit_code == 1
    assert (tmp_path / "pipe").is_fifo(), "as /dev/null would be"
    (tmp_path / "nothing").mkdir()
    for form in FORMATS:
        assert "run.json" in export(tmp_path / "nothing", form, tmp_path / "out").output
    assert export(tmp_path / "nowhere", "atif", tmp_path / "out").exit_code == 2
    assert export(made, "csv", tmp_path / "out").exit_code == 2
    assert (tmp_path / "file").read_text() == "mine"
