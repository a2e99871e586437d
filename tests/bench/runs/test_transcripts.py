"""Transcripts: all that went to a model and came from it is on disk, without what is secret, and a
file that no run wrote is refused.
"""

import base64
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from anyio import to_thread
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from bench.agents.llm import LlmAgent
from bench.agents.registry import AgentSettings
from bench.engines.batch import Collector
from bench.judges.registry import JudgeSettings, judge_named
from bench.models.client import ModelClient
from bench.models.completion import Completion, FunctionCall
from bench.models.settings import ModelSettings
from bench.models.simulated import ModelFaults, SimulatedModel
from bench.models.transcript import MOST_BYTES, Exchange, Transcript, TranscriptLine
from bench.record import ModelCallRecord
from bench.runs.directory import RunDirectory, RunDirectoryError
from bench.runs.driver import Driver
from bench.runs.reader import Run
from bench.runs.run import RunPlan, run
from bench.runs.transcripts import Transcripts
from bench.suites import load_suite
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import Task
from gateway import GatewaySettings
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.played_model import TASK, Outputs, playing, says
from tests.support.records import episode
from tests.support.runs import SNAPSHOT, lines_of

pytestmark = pytest.mark.anyio

KEY = "sk-planted+key/0451=="


def with_answer(task: Task) -> Task:
    return task.model_copy(update={"answer": "12.5"})


async def played(folder: Path, catalog: Catalog, *, transcripts: bool = True) -> Run:
    """A run of the simulated model and its judge, some of whose requests fail."""
    suite = load_suite("starter")
    suite = LabelledTasks(name=suite.name, tasks=map(with_answer, suite.tasks[:12]))
    faults = ModelFaults(server_error=0.3)
    async with SimulatedModel.open(suite.tasks, catalog, faults=faults) as model:
        plan = RunPlan(
            suite,
            "embedded",
            12,
            8,
            agent=AgentSettings.of("fatr", model=ModelSettings("m", model.base_url)),
            judge=JudgeSettings(judge_named("llm", suite.judges), "m", model.base_url),
            top_k=5,
            transcripts=transcripts,
        )
        settings = GatewaySettings(mode="offline", snapshot=SNAPSHOT, cache_dir=folder / "cache")
        await run(plan, folder / "run", settings, show=False, catalog=catalog)
    return Run.open(folder / "run")


@pytest.fixture(scope="module")
async def made(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("FINPORT_")]:
            patch.delenv(name)
        return await played(tmp_path_factory.mktemp("made"), catalog)


async def test_each_request_of_a_record_is_in_the_export_with_its_answer(
    made: Run, tmp_path: Path
) -> None:
    out = tmp_path / "said.jsonl"
    told = await to_thread.run_sync(
        finbench, "export", str(made.path), "--format", "transcripts", "--out", str(out)
    )
    assert told.returncode == 0, told.stderr
    said = {line["episode"]: line for line in lines_of(out)}
    records = [record for record, _ in made.episodes()]
    assert len(records) == len(said) == 12
    for record in records:
        assert record.judgement is not None
        asked = [*record.model_calls, *record.judgement.model_calls]
        found = said[record.episode]["requests"]
        assert Counter((one["step"], one["purpose"], one["error"]) for one in found) == Counter(
            (call.step, call.purpose, call.error) for call in asked
        )
        for one in found:
            assert (one["answer"] is None) == (one["error"] is not None)
        ended = next(one for one in reversed(found) if one["purpose"] in ("act", "final"))
        if record.ending == "answer":
            assert ended["answer"]["content"] == record.execution_result
            assert record.question in ended["messages"][1]["content"]
        replies = {one["answer"]["content"] for one in found if one["step"] == 0 and one["answer"]}
        assert replies == {call.reply for call in record.judgement.model_calls if call.reply}


async def test_a_report_has_them_and_a_run_without_them_has_no_file(
    made: Run, catalog: Catalog, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    told = await to_thread.run_sync(finbench, "report", str(made.path), "--out", str(page))
    assert told.returncode == 0, told.stderr
    text = page.read_text()
    assert "TASK: constraints" in text
    assert "Simulated: by whether the answer holds the reference" in text
    assert "<title>starter by fatr with m " in text
    other = await played(tmp_path / "other", catalog, transcripts=False)
    assert not (other.path / "transcripts.jsonl").exists()
    told = await to_thread.run_sync(
        finbench, "export", str(other.path), "--format", "transcripts", "--out", "x.jsonl"
    )
    assert (told.returncode, "has no transcripts" in told.stderr) == (1, True)


async def test_a_run_that_is_judged_again_keeps_what_its_agent_said(
    made: Run, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    told = await to_thread.run_sync(
        finbench, "score", str(made.path), "--judge", "rules", "--out", str(again)
    )
    assert told.returncode == 0, told.stderr
    before, after = Transcripts(made.path), Transcripts(again)
    for record, _ in Run.open(again).episodes():
        agents = [one for one in before.of(record) if one.step]
        assert agents
        assert after.of(record) == agents


async def test_a_transcript_has_what_was_sent_and_no_secret(
    catalog: Catalog, tmp_path: Path
) -> None:
    wallet = {"address": "0x52908400098527886E0F7030069857D2E4169EE7", "phrase": "apple " * 12}
    tool = catalog.get("generate_wallet")
    async with playing(
        says("so", ("generate_wallet", {"chain": "x", "api_key": "planted-in-arguments"})),
        says("once more", ("generate_wallet", '{"token": "planted-in-a-half')),
        says(f"It is {wallet['address']}; the key was {KEY}."),
    ) as model:
        async with ModelClient.open(model.url, "played", KEY) as client:
            agent = LlmAgent(client)
            suite = LabelledTasks(name="one", tasks=(TASK,))
            outputs = Outputs({"generate_wallet": orjson.dumps(wallet)})

            async def offer(_: Any) -> Any:
                return (tool,)

            async with RunDirectory.open(tmp_path / "run", {}, is_transcribed=True) as directory:
                driver = Driver(
                    *(suite, agent, outputs, directory),
                    concurrency=1,
                    offer=offer,
                    withheld={"generate_wallet"},
                )
                await driver.run(1)
        ((record, _),) = Run.open(tmp_path / "run").episodes()
        said = Transcripts(tmp_path / "run").of(record)
        assert [len(one.messages) for one in said] == [2, 4, 6]
        assert [one.messages[:2] for one in said] == [model.requests[0]["messages"]] * 3
        assert [one.tools for one in said] == [request["tools"] for request in model.requests]
        assert said[0].answer is not None
        assert said[0].answer["content"] == "so"
        kept = json.dumps([vars_of(one) for one in said])
        for secret in (*wallet.values(), KEY, "planted-in"):
            assert secret.strip() not in kept
        assert KEY in json.dumps(model.requests) or "***" in kept


def vars_of(exchange: Exchange) -> dict[str, Any]:
    return {name: getattr(exchange, name) for name in Exchange.__slots__}


async def test_long_thoughts_neither_end_an_episode_nor_are_lost(tmp_path: Path) -> None:
    thoughts = "because " * 4_000
    suite = LabelledTasks(name="one", tasks=(TASK,))
    async with (
        playing(says("1", reasoning_content=thoughts)) as model,
        ModelClient.open(model.url, "played", None) as client,
        RunDirectory.open(tmp_path / "run", {}, is_transcribed=True) as directory,
    ):
        await Driver(suite, LlmAgent(client), Outputs(), directory, concurrency=1).run(1)
    ((record, _),) = Run.open(tmp_path / "run").episodes()
    assert (record.ending, record.error) == ("answer", None)
    assert record.model_calls[0].reasoning == thoughts[:20_000]
    (one,) = Transcripts(tmp_path / "run").of(record)
    assert one.answer is not None
    assert one.answer["reasoning"] == thoughts


_REQUEST = '{"step":1,"purpose":"act","model":"m","tools":[],"messages":[%s],"after":0,"kept":9999}'
FAN = (
    b"["
    + ",".join(
        [
            _REQUEST.replace('"after":0', '"after":-1') % ",".join("1" * 9_999),
            *[_REQUEST % ""] * 200,
        ]
    ).encode()
    + b"]"
)
"""Requests that each refer to the first one, whose messages would fill the memory."""


def line(stored: bytes, **more: Any) -> bytes:
    packed = base64.b64encode(stored).decode()
    made = {"episode": "e", "began": 1.0, "by": "agent", "requests": 1, "left_out": 0}
    return orjson.dumps({**made, "zstd": packed, **more}) + b"\n"


@pytest.mark.parametrize(
    "text",
    [
        line(b"no frame"),
        line(zstd.compress(b"[" + b" " * (2 * MOST_BYTES) + b"]")),
        line(zstd.compress(b'[{"step":1,"purpose":"act","model":"m","messages":[],"tools":3}]')),
        line(zstd.compress(b'[{"step":1,"purpose":"act","model":"m","messages":[],"tools":-1}]')),
        line(zstd.compress(b"[]") + zstd.compress(b"[" + b" " * (4 * MOST_BYTES) + b"]")),
        line(zstd.compress(FAN)),
        line(zstd.compress(b"{}")),
        line(b"", zstd="\u2028"),
        line(b"", began="x"),
        b"[1]\n",
    ],
    ids=[
        *("no frame", "too long", "refers to none", "refers to before all", "two frames", "a fan"),
        *("no list", "no base64", "no time", "no line"),
    ],
)
def test_what_no_run_wrote_is_refused(text: bytes, tmp_path: Path) -> None:
    record = episode()
    record.episode, record.started_at = "e", 1.0
    (tmp_path / "transcripts.jsonl").write_bytes(text)
    with pytest.raises(RunDirectoryError, match=r"transcripts\.jsonl"):
        Transcripts(tmp_path).of(record)


def test_a_line_that_a_kill_cut_off_and_an_earlier_attempt_do_not_count(tmp_path: Path) -> None:
    def said(text: str, step: int, began: float) -> bytes:
        transcript = Transcript()
        transcript.add(record_of(step), *sent(text), None, None)
        return orjson.dumps(transcript.line("e", began, "agent")) + b"\n"

    lines = [said("old", 1, 1.0), said("day 1", 1, 2.0), said("day 2", 4, 2.0)]
    again = [said("day 2 again", 4, 2.0)]
    (tmp_path / "transcripts.jsonl").write_bytes(b"".join([*lines, *again])[:-9] + b"\n")
    record = episode()
    record.episode, record.started_at = "e", 2.0
    (tmp_path / "transcripts.jsonl").write_bytes(b"".join([*lines, *again, lines[0][:40]]))
    found = [one.messages[0]["content"] for one in Transcripts(tmp_path).of(record)]
    assert found == ["day 1", "day 2 again"]


def record_of(step: int) -> ModelCallRecord:
    return ModelCallRecord(step, "act", "m", 0.0, 0.0)


def sent(*texts: str) -> tuple[list[bytes], list[bytes]]:
    return [orjson.dumps({"role": "user", "content": text}) for text in texts], []


_TEXTS = st.lists(st.sampled_from(["a", "b", "long " * 50, "中"]), max_size=6)


@given(st.lists(_TEXTS, max_size=30))
def test_conversations_of_any_kind_are_read_as_they_were_sent(requests: list[list[str]]) -> None:
    transcript = Transcript()
    for step, texts in enumerate(requests, 1):
        answer = Completion(f"answer {step}") if step % 3 else None
        transcript.add(record_of(step), *sent(*texts), "none", answer)
    made = TranscriptLine(**orjson.loads(orjson.dumps(transcript.line("e", 1.0, "agent"))))
    found = made.exchanges()
    assert [[m["content"] for m in one.messages] for one in found] == requests
    assert [one.step for one in found] == list(range(1, len(requests) + 1))
    assert not transcript


def test_what_is_kept_of_an_episode_is_bounded() -> None:
    transcript = Transcript()
    for step in range(1, 7):
        text = f"{step}" * 2**20
        transcript.add(record_of(step), *sent(text), None, None)
    made = transcript.line("e", 1.0, "agent")
    assert (made.requests, made.left_out) == (3, 3)
    assert len(made.exchanges()) == 3


async def test_of_a_player_they_leave_with_their_episode() -> None:
    collector = Collector(LabelledTasks, is_transcribed=True)
    assert collector.transcripts is not None
    for name in ("a", "b"):
        collector.transcripts.put(TranscriptLine(name, 1.0, "agent", 0, 0, ""))
    record = episode()
    record.episode = "a"
    collector.put(record)
    batch = collector.take()
    assert [orjson.loads(text)["episode"] for text in batch.transcripts.splitlines()] == ["a"]


@pytest.mark.parametrize(
    "arguments",
    [
        '[{"api_key":"planted-1234"}]',
        '"api_key=planted-1234"',
        '{"body":"{\\"api_key\\":\\"planted-1234\\"}"}',
        '{"url":"https://x.test/?api_key=planted-1234"}',
        '{"headers":"Authorization: Bearer planted-1234"}',
        '{"api_key":"planted-1234","a":' + "[" * 400 + "]" * 400 + "}",
        '{"api_key": "planted-1234',
    ],
)
def test_credentials_in_arguments_of_any_shape_are_masked(arguments: str) -> None:
    transcript = Transcript()
    call = FunctionCall("c", "get_coin", arguments)
    made = {"id": "c", "type": "function", "function": {"name": "x", "arguments": arguments}}
    message = orjson.dumps({"role": "assistant", "tool_calls": [made, 5]})
    odd = orjson.dumps({"role": "assistant", "tool_calls": 5})
    transcript.add(record_of(1), [message, odd], [], None, Completion("", (call,)))
    (one,) = transcript.line("e", 1.0, "agent").exchanges()
    kept = json.dumps(vars_of(one))
    assert "get_coin" in kept
    assert "planted-1234" not in kept


def test_many_and_large_arguments_and_answers_are_not_read_on_the_loop() -> None:
    transcript = Transcript()
    call = FunctionCall("c", "get_coin", "{" + '"a":1,' * 2_000 + '"b":1}')
    transcript.add(record_of(1), *sent("q"), None, Completion("", (call,)))
    assert not transcript.is_quick
    transcript.line("e", 1.0, "agent")
    transcript.add(record_of(1), *sent("q"), None, Completion("", (FunctionCall("c", "x", "{}"),)))
    assert transcript.is_quick
    transcript.withhold(orjson.dumps({"pin": 12_345_678, "note": "short"}))
    assert not transcript.is_quick
    transcript.add(record_of(2), *sent("the pin is 12345678, a note"), None, None)
    found = transcript.line("e", 1.0, "agent").exchanges()
    assert found[1].messages[0]["content"] == "the pin is ***, a note"
