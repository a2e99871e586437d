"""The paper's protocol: which tools an agent is offered, and what a model reads of them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from anyio import to_thread

from bench.models.simulated import MODEL, SimulatedModel
from bench.suites import load_suite
from manifests import Catalog
from manifests.export import export
from tests.support.commands import finbench
from tests.support.upstreams import embeddings, upstream

pytestmark = pytest.mark.anyio

TASKS = "starter_2,starter_3"
LABELS = [{call.name for call in task.tools} for task in load_suite("starter").tasks]


async def offered(catalog: Catalog, *options: str, out: str = "run") -> list[dict[str, Any]]:
    """The episodes of a run of two tasks of `starter`, whose tools do not import AkShare."""
    tasks = load_suite("starter").tasks
    async with SimulatedModel.open(tasks, catalog) as model:
        asked = ("--agent", "llm", "--model", MODEL, "--base-url", model.base_url)
        command = ("run", "starter", *asked, "--upstream", "simulated", "--tasks", TASKS)
        made = partial(finbench, *command, "--out", out, "--judge", "none", *options)
        done = await to_thread.run_sync(made)
    assert done.returncode == 0, done.stderr
    return episodes(out)


def episodes(out: str = "run") -> list[dict[str, Any]]:
    lines = Path(f"{out}/episodes.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda episode: str(episode["id"]))


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"run/{name}.json").read_text())
    return found


async def test_tools_are_retrieved_by_vectors_alone_and_the_vectors_are_kept(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_EMBEDDINGS_KEY", "k")
    texts: list[str] = []

    async def counted(request: web.Request) -> web.Response:
        texts.extend((await request.json())["input"])
        return await embeddings(request)

    async with upstream(counted) as url:
        dense = ("--retrieval", "dense", "--embedding-model", "words", "--embedding-url", url)
        first = await offered(catalog, *dense, "--top-k", "7")
        assert [len(one["candidate_tools"]) for one in first] == [7, 7]
        assert len(texts) >= len(catalog)
        assert recorded("run")["retrieval"] == "dense"
        texts.clear()
        again = await offered(catalog, *dense, "--top-k", "7", out="again")
        assert len(texts) == 2, "the questions only"
    assert again[0]["candidate_tools"] == first[0]["candidate_tools"]


async def test_labelled_tools_and_all_tools_may_be_offered(catalog: Catalog) -> None:
    gold = await offered(catalog, "--retrieval", "gold")
    assert all(set(one["candidate_tools"]) in LABELS for one in gold)
    assert recorded("metrics")["tool_use"]["labelled"]["offered_all"] == 1
    every = await offered(catalog, "--retrieval", "all", out="all")
    assert len(every[0]["candidate_tools"]) > 700


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--retrieval", "dense"), "--retrieval dense wants --embedding-model"),
        (("--retrieval", "gold", "--top-k", "3"), "--top-k is not for --retrieval gold"),
        (("--cards", "paper"), "--cards paper wants --manifests"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: tuple[str, ...], said: str) -> None:
    done = finbench("run", "starter", *options)
    assert (done.returncode, said in done.stderr) == (2, True)


async def test_an_embedder_that_does_not_answer_ends_the_run(catalog: Catalog) -> None:
    dense = ("--retrieval", "dense", "--embedding-model", "w", "--embedding-url")
    done = await to_thread.run_sync(
        partial(finbench, "run", "starter", *dense, "http://127.0.0.1:9", "--top-k", "3")
    )
    assert done.returncode == 2
    assert "tools can't be retrieved" in done.stderr
    assert len(catalog) > 0


def write_manifests(catalog: Catalog) -> None:
    """A file of the authors' form, with descriptions that are not ours."""
    lines = []
    for tool in catalog:
        line = export(tool, "fintoolbench")
        line["description"] = f"说明：{tool.name}"
        for of in line["parameters"]["properties"].values():
            of["description"] = "参数"
        lines.append(json.dumps(line, ensure_ascii=False))
    Path("tools.jsonl").write_text("\n".join(lines))


async def test_a_model_and_a_judge_read_the_cards_of_the_manifest_file(catalog: Catalog) -> None:
    write_manifests(catalog)
    bodies: list[dict[str, Any]] = []
    tasks = load_suite("starter").tasks
    async with SimulatedModel.open(tasks, catalog) as model:

        async def relay(request: web.Request) -> web.Response:
            bodies.append(await request.json())
            at = f"{model.base_url}/chat/completions"
            async with ClientSession() as client, client.post(at, json=bodies[-1]) as answered:
                return web.json_response(await answered.json())

        async with upstream(relay) as url:
            asked = ("--agent", "llm", "--model", MODEL, "--base-url", f"{url}/v1")
            cards = ("--manifests", "tools.jsonl", "--cards", "paper", "--judge", "llm")
            command = ("run", "starter", *asked, "--upstream", "simulated", "--tasks", TASKS)
            done = await to_thread.run_sync(partial(finbench, *command, "--out", "run", *cards))
    assert done.returncode == 0, done.stderr
    function = bodies[0]["tools"][0]["function"]
    described, tags = function["description"].split("\nfinancial_tags: ")
    assert described == f"说明：{function['name']}"
    assert json.loads(tags).keys() == {"timeliness", "intent_type", "regulatory_domains"}
    judged = [body for body in bodies if "judge-tools" in body["messages"][0]["content"]]
    assert "说明：" in judged[0]["messages"][1]["content"]
    assert episodes()[0]["tool_calls"][0]["ok"]
    assert len(recorded("run")["cards"]) == 16
