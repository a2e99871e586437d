"""`finbench reproduce` and `finbench fetch`: the papers' settings, tables and data."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bench.models.simulated import MODEL, ModelFaults, SimulatedModel
from bench.suites import SUITES, load_suite
from bench.suites.finova.suite import Finova
from bench.suites.paper import DataFile, Given, blob_of
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.commands import finbench
from tests.support.markets import write_market

pytestmark = pytest.mark.anyio

QUESTIONS = "questions.jsonl"


def write_questions() -> None:
    """Two questions in the shape of the authors' file, whose tools do not import AkShare."""
    lines = [
        {
            "original_idx": 1,
            "dataset_name": "financebench",
            "category": "single",
            "question": task.question,
            "answer": task.answer,
            "select_tools": [call.name for call in task.tools],
            "tool_nums": len(task.tools),
            "reasoning": "",
        }
        for task in load_suite("starter").tasks[2:4]
    ]
    Path(QUESTIONS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


async def reproduced(
    catalog: Catalog, suite: str, *options: str, faults: ModelFaults | None = None
) -> Any:
    name = suite if suite in ("finova-sample", "fintrace-sample") else "starter"
    wrong = faults or ModelFaults()
    async with SimulatedModel.open(load_suite(name).tasks, catalog, faults=wrong) as model:
        asked = ("--model", MODEL, "--base-url", model.base_url, "--out", "run")
        command = partial(finbench, "reproduce", suite, *asked, *options)
        return await to_thread.run_sync(command)


@pytest.mark.parametrize(
    ("suite", "options", "wanted"),
    [
        (
            "fintoolbench",
            ("--dataset", QUESTIONS, "--judge-model", "other", "--upstream", "simulated"),
            ("differs: 2 questions", "simulated upstream", "GPT-4o", "0.2267", "data: "),
        ),
        (
            "fintrace-sample",
            ("--episodes", "3", "--judge-model", "other", "--upstream", "simulated"),
            ("they are not public", "Claude-Opus-4.6", "0.896"),
        ),
        ("finova-sample", (), ("differs: 24 prompts", "Agentar-Fin-R1-32B", "69.93")),
        (
            "investorbench",
            ("--dataset", "market", "--episodes", "1"),
            ("no day is known before it comes", "Palmyra-Fin-70B", "1 episodes of 1 tasks"),
        ),
    ],
)
async def test_a_paper_is_run_again_and_its_table_has_a_row_of_the_run(
    suite: str, options: tuple[str, ...], wanted: tuple[str, ...], catalog: Catalog
) -> None:
    write_questions()
    write_market(Path("market"), ("AAA",))
    done = await reproduced(catalog, suite, *options)
    assert done.returncode == 0, done.stderr
    settings, _, tables = done.stdout.partition("the command: finbench run")
    assert "as the paper" in settings
    assert "lacking" not in settings
    for text in wanted:
        assert text in " ".join(done.stdout.split()), text
    assert "this run:" in tables
    assert "what differs from the paper" in tables


async def test_an_option_of_the_users_differs_and_is_named(catalog: Catalog) -> None:
    judged = ("--judge-repeats", "1", "--judge-model", "other", "--upstream", "simulated")
    write_questions()
    done = await reproduced(catalog, "fintoolbench", "--dataset", QUESTIONS, *judged)
    assert done.returncode == 0, done.stderr
    assert "judge: differs: --judge-repeats 1" in done.stdout
    assert "--judge-repeats 3" not in done.stdout
    assert "the judge is simulated" in done.stdout


@pytest.mark.parametrize(
    ("suite", "options", "wanted"),
    [
        ("fintrace-sample", "--top-k 3", "here 3 retrieved ones"),
        ("fintrace-sample", "--top-k 0", "here the labelled tools"),
        ("fintrace-sample", "--retrieval all", "here all tools"),
        ("fintrace-sample", "--judge-protocol joint", "in our words, one request"),
        ("fintrace-sample", "--judge-repeats 1", "the median of 1 repeats"),
        ("fintrace-sample", "--max-rounds 1", "differs: --max-rounds 1"),
        ("fintrace-sample", "--judge none", "differs: --judge none"),
        ("finova-sample", "--temperature 0", "differs: --temperature 0.0"),
        ("finova-sample", "--episodes 10", "differs: 10 episodes"),
        ("finova-sample", "--agent fatr", "differs: --agent fatr"),
        ("finova-sample", "--max-wall-s 5", "--max-wall-s not given differs: 5.0"),
        ("fintoolbench", "--no-inject", "differs: --no-inject"),
        ("fintoolbench", "--max-calls 2", "differs: --max-calls 2"),
        ("fintoolbench", "--retrieval gold", "differs: --retrieval gold"),
        ("fintoolbench", "--max-tokens 9", "differs: --max-tokens 9"),
        ("fintoolbench", "--agent llm", "differs: --agent llm"),
        ("fintoolbench", "--judge rules", "differs: --judge rules"),
        ("fintoolbench", "--episodes 1", "differs: 1 episodes"),
        ("fintoolbench", "--reading paper", "its table, which is by the program"),
        ("fintoolbench", "--max-output-chars 500", "differs: --max-output-chars 500"),
        ("investorbench", "--environment cost_bp=50", "differs: cost_bp=50"),
        ("investorbench", "--environment hindsight=true", "the position follows it as the paper"),
        ("investorbench", '--body {"temperature":1}', "differs: --body"),
        ("investorbench", "--agent momentum", "differs: --agent momentum"),
    ],
)
def test_what_differs_is_said_before_anything_is_run(
    suite: str, options: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # so that no text is broken into lines
    write_questions()
    write_market(Path("market"), ("AAA",))
    data = {"fintoolbench": QUESTIONS, "investorbench": "market"}.get(suite)
    dataset = ("--dataset", data) if data else ()
    keeps_judge = "--judge " not in options and suite in ("fintoolbench", "fintrace-sample")
    judge = ("--judge-model", "other") if keeps_judge else ()
    model = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1")
    asked = (*dataset, *judge, *(() if "momentum" in options else model), *options.split(" ", 1))
    done = finbench("reproduce", suite, *asked, "--upstream", "simulated", "--dry-run")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert wanted in said
    assert ("not given" in said) == ("not given" in wanted), "no option is told of twice"
    assert "lacking" not in done.stdout
    assert not Path("runs").exists()


def test_a_dry_run_as_json_has_the_table_and_the_cost_of_the_episodes_asked_for() -> None:
    asked = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--dry-run")
    done = finbench("reproduce", "finova-sample", *asked, "--json", "--episodes", "10")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    settings = {one["setting"]: (one["paper"], one["run"]) for one in told["settings"]}
    assert settings["prompts"][1].startswith("differs: 10 episodes")
    assert set(settings) == {setting.name for setting in Finova.paper.settings}
    assert told["cost"]["episodes"] == 10
    assert told["lacking"] == []
    assert told["command"][:3] == ["finbench", "run", "finova-sample"]
    assert {"suite", "paper", "source", "always"} <= told.keys()
    for options, episodes in (
        (("finova-sample", "--repeats", "3"), 3 * 24),
        (("finova-sample",), 24),
        (("investorbench", "--dataset", "market"), 5),
        (("investorbench", "--dataset", "market", "--repeats", "2"), 2),
    ):
        write_market(Path("market"), ("AAA",))
        done = finbench("reproduce", *options, *asked)
        assert f"cost, for each of {episodes} episodes: " in done.stdout
    assert "repeats 5, of which the median counts differs: 2 episodes" in " ".join(
        done.stdout.split()
    )


async def test_episodes_beyond_those_asked_for_stay_when_a_run_goes_on(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    async with SimulatedModel.open(load_suite("finova-sample").tasks, catalog) as model:
        asked = ("--model", MODEL, "--base-url", model.base_url, "--out", "run", "--json")
        parts = [
            await to_thread.run_sync(partial(finbench, "reproduce", "finova-sample", *of, *asked))
            for of in (
                ("--episodes", "6"),
                ("--episodes", "4", "--resume"),
                ("--episodes", "8", "--resume"),
            )
        ]
    assert [json.loads(part.stdout)["episodes"] for part in parts] == [6, 6, 8]
    said = "2 episodes in run are beyond the 4 that are asked for; they stay and count"
    assert [one.getMessage() for one in caplog.records if "beyond" in one.getMessage()] == [said]
    assert "the episodes that the run has already cost nothing more" in parts[1].stderr


def test_secrets_are_not_printed() -> None:
    secret = "planted-0123456789"  # noqa: S105 - it opens nothing
    given = (
        *("--model", "m", f"--base-url=http://user:{secret}@127.0.0.1:1/v1?api_key={secret}"),
        *("--body", json.dumps({"api_key": secret}), "--header", f"X-Key={secret}"),
    )
    done = finbench("reproduce", "finova-sample", *given, "--dry-run")
    assert "the command: finbench run finova-sample" in done.stdout
    assert secret not in done.stdout


async def test_failures_are_named_beside_the_table(catalog: Catalog) -> None:
    faults = ModelFaults(garbage=0.7)
    done = await reproduced(catalog, "finova-sample", "--episodes", "8", faults=faults)
    assert done.returncode == 0
    assert "of 8 episodes ended by model_error, and count as failed" in done.stdout


async def test_another_temperature_is_another_run(catalog: Catalog) -> None:
    first = await reproduced(catalog, "finova-sample", "--episodes", "3")
    assert first.returncode == 0
    again = await reproduced(catalog, "finova-sample", "--resume", "--temperature", "0.1")
    assert again.returncode == 1
    assert "body was {} and is {'temperature': 0.1}" in again.stderr


def test_a_dry_run_tells_what_lacks_and_a_run_refuses() -> None:
    told = finbench("reproduce", "fintoolbench", "--dry-run", "--embedding-model", "bge-m3")
    assert told.returncode == 0, told.stderr
    text = " ".join(told.stdout.split())
    for wanted in (
        "lacking: --dataset, the question file: `finbench fetch fintoolbench` gets it",
        "lacking: --model",
        "lacking: FINPORT_RAPIDAPI_KEYS",
        "retrieval BGE-M3, dense, cosine, top 20 as the paper",
        "--retrieval dense",
    ):
        assert wanted in text, wanted
    refused = finbench("reproduce", "fintoolbench")
    assert refused.returncode == 2
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("starter",), "is the suite of no paper; there are: fintoolbench, finova"),
        (("finova-sample", "--plan"), "--dry-run tells"),
        (("finova-sample", "--no-such-option"), "No such option"),
        (("finova", "--dataset", "nowhere"), "does not exist"),
        (("finova", "--dataset", "."), "holds no tasks"),
    ],
)
def test_what_can_not_be_reproduced_is_a_usage_error(
    arguments: tuple[str, ...], wanted: str
) -> None:
    done = finbench("reproduce", *arguments)
    assert done.returncode == 2
    assert wanted in done.stderr


def test_data_are_taken_from_a_clone_checked_and_put_in_place() -> None:
    assert Finova.paper is not None
    repository = Finova.paper.repository
    assert repository is not None
    for file in repository.files:
        place = Path("clone", file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("[]")
    done = finbench("fetch", "finova", "--from", "clone", "--out", "data")
    assert done.returncode == 1
    assert f"it is git blob {blob_of(b'[]')}, the published one is" in done.stderr
    assert "6 of 6 files lack" in done.stderr
    assert not Path("data").exists()
    for name in (
        "data/question/select_data_real_remove_duplicates.jsonl",
        "tools/tools_all_annotated.jsonl",
    ):
        Path("clone", name).parent.mkdir(parents=True, exist_ok=True)
        Path("clone", name).write_text("{}\n")
    done = finbench("fetch", "fintoolbench", "--from", "clone")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "data/fintoolbench"
    assert "no checksum is known here" in done.stderr
    assert Path("data/fintoolbench/tools/tools_all_annotated.jsonl").read_text() == "{}\n"


def test_what_is_in_its_place_is_never_replaced_unasked() -> None:
    Path("questions.jsonl").write_text("{}\n")
    one = finbench("fetch", "fintoolbench", "--from", "questions.jsonl")
    assert one.returncode == 1
    assert one.stderr.count("it is not in questions.jsonl") == 2, "it has neither name"
    named = Path("select_data_real_remove_duplicates.jsonl")
    named.write_text("no JSON")
    wrong = finbench("fetch", "fintoolbench", "--from", str(named))
    assert "it holds no JSON" in wrong.stderr
    place = Path("data", "investorbench", "data", "btc.json")
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    Path("clone", "data").mkdir(parents=True)
    Path("clone", "data", "btc.json").write_text("{}")
    kept = finbench("fetch", "investorbench", "--from", "clone")
    assert kept.returncode == 1
    assert f"{place} is there, and is not the published one; --force replaces it" in kept.stderr
    assert place.read_text() == "mine"
    blocked = Path("out", "data", "eth.json")
    blocked.mkdir(parents=True)
    Path("clone", "data", "eth.json").write_text("{}")
    told = finbench("fetch", "investorbench", "--from", "clone", "--out", "out")
    assert told.returncode == 1
    assert "Traceback" not in told.stderr


def test_where_data_are_is_listed_and_an_unreachable_address_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = finbench("fetch", "investorbench", "--list")
    assert listed.returncode == 0
    assert len(listed.stdout.splitlines()) == 8
    assert all("git blob" in line for line in listed.stdout.splitlines())
    one = finbench("fetch", "btc.json", "--list")
    assert [line.split("  ")[0].rsplit("/", 1)[1] for line in one.stdout.splitlines()] == [
        "btc.json"
    ]
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    done = finbench("fetch", "investorbench")
    assert done.returncode == 1
    assert "this machine does not reach it" in done.stderr
    assert "name them with --from" in done.stderr
    none = finbench("fetch", "fintrace")
    assert none.returncode == 2
    assert "FinTrace publishes no data" in none.stderr


def test_a_blob_id_is_that_of_git() -> None:
    assert blob_of(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert DataFile("a").is_data


def test_the_documentation_names_each_setting_that_may_differ() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text()
    for name in ("FinToolBench", "FinTrace", "Finova", "InvestorBench"):
        paper = SUITES[name.lower()].paper
        assert paper is not None
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        here = {setting.name: setting.told(Given({})) for setting in paper.settings}
        differing = [one for one, told in here.items() if told.startswith(("differs", "cannot"))]
        assert [one for one in differing if f"\n| {one} |" not in section] == []
