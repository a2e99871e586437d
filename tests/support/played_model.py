"""A model for tests: an HTTP server on this machine that plays prepared answers to real requests,
and checks each request as an endpoint that takes nothing amiss would.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from anyio.from_thread import start_blocking_portal
from pydantic import TypeAdapter, ValidationError

from bench.agents import Agent
from bench.models.client import ModelClient
from bench.models.simulated import SimulatedModel
from bench.rollouts import text_of
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver, Limits
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import Task
from cache import Entry
from finport import Budget, compress
from gateway import CallContext, Result
from manifests import Catalog, Manifest
from tests.support.answers import answer
from tests.support.upstreams import upstream

Answer = dict[str, Any] | int
"""A message of the model, with `finish` beside it, or the status of a failure."""

Aside = Callable[[dict[str, Any]], Awaitable[Answer]]

INPUT, OUTPUT = 100, 7
"""Tokens that each answer is said to have cost."""


def says(content: str | None = None, *calls: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """A message with calls of (name, arguments), where arguments may be any text."""
    made = [
        {
            "id": f"id{place}_{name[:8]}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for place, (name, given) in enumerate(calls)
    ]
    return {"content": content, **({"tool_calls": made} if made else {}), **more}


@dataclass
class PlayedModel:
    """Answers to requests that begin with `TASK: name` come from `aside[name]`, others from `plan`
    or, without one, in order from `answers`.
    """

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    aside: dict[str, Aside] = field(default_factory=dict)
    plan: Aside | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    asides: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        try:
            check(body)
        except (AssertionError, ValidationError) as error:
            self.broken.append(repr(error))
            return web.Response(status=400)
        first = text_of(body["messages"][0]["content"]).split("\n")[0]
        if first.startswith("TASK: "):
            self.asides.append(body)
            said = await self.aside[first.removeprefix("TASK: ")](body)
        else:
            self.requests.append(body)
            said = await self.plan(body) if self.plan else self.answers.pop(0)
        if isinstance(said, int):
            return web.json_response({"error": {"message": "made to fail"}}, status=said)
        said = {"finish": "tool_calls" if said.get("tool_calls") else "stop", **said}
        whole = completion(**said, model=body["model"], tokens=(INPUT, OUTPUT, 0))
        return web.Response(body=whole, content_type="application/json")

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as the last request had it."""
        sent: list[dict[str, Any]] = self.requests[-1]["messages"]
        return sent


@cache
def _sdk(name: str) -> TypeAdapter[Any]:
    """A type of the official SDK, whose import takes half a second."""
    from openai.types import chat

    return TypeAdapter(getattr(chat, name))


def check(body: dict[str, Any]) -> None:
    """Fits the SDK's types; every call is answered exactly once, right after its message, ids are
    used once, arguments are JSON objects, names are names, and the user never speaks twice.
    """
    for tool in body.get("tools", ()):
        _sdk("ChatCompletionFunctionToolParam").validate_python(tool)
    assert "tool_choice" not in body or body["tools"]
    owed: Counter[str] = Counter()
    seen: set[str] = set()
    before = ""
    for message in body["messages"]:
        _sdk("ChatCompletionMessageParam").validate_python(message)
        role = message["role"]
        if role == "tool":
            assert owed.pop(message["tool_call_id"]) == 1
        else:
            assert not owed, "a call without an answer"
            assert role == "assistant" or role != before
        for call in message.get("tool_calls", ()):
            _sdk("ChatCompletionMessageFunctionToolCallParam").validate_python(call)
            assert call["id"] not in seen
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert call["function"]["name"].replace("_", "a").replace("-", "a").isalnum()
            assert len(call["function"]["name"]) <= 64
            seen.add(call["id"])
            owed[call["id"]] += 1
        before = role
    assert not owed


@contextmanager
def simulated_model(tasks: Iterable[Task], **settings: Any) -> Iterator[str]:
    """The URL of a simulated model of these tasks, for tests without an event loop."""
    opened = SimulatedModel.open(tasks, Catalog.load(), **settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as model:
        yield model.base_url


@asynccontextmanager
async def playing(*answers: Answer) -> AsyncIterator[PlayedModel]:
    """A model that plays `answers`; whatever breaks the rules of `check` fails the test."""
    played = PlayedModel(answers=list(answers))
    async with upstream(played.answer) as url:
        played.url = f"{url}/v1"
        yield played
        assert not played.broken, played.broken


class Outputs:
    """A tool client that answers with prepared outputs, by tool."""

    def __init__(self, outputs: Mapping[str, bytes | Result] | None = None) -> None:
        self.outputs = outputs or {}
        self.made: list[tuple[str, dict[str, Any]]] = []

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        self.made.append((tool, dict(arguments)))
        output = self.outputs.get(tool, b'{"ok":1}')
        if isinstance(output, Result):
            return output
        if context.max_chars is None:
            return answer(output)
        limit, entry = Budget(context.max_chars, "chars"), entry_of(output)
        text = compress(entry, limit, context.question).text
        return answer(orjson.dumps(text), is_text=True)


def entry_of(output: bytes) -> Entry:
    """The answer as the gateway caches it: of a table the rows are lines."""
    rows = orjson.loads(output)
    is_table = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    columns = tuple(rows[0]) if is_table else None
    return Entry(output, columns, len(rows) if is_table else None, 0.0, 0.0, "live")


TASK = Task(id="q", category="bond", question="What did the 10 year bond yield?", tools=())


async def play(
    folder: Path,
    agent: Agent,
    client: Any,
    tools: tuple[Manifest, ...] = (),
    limits: Limits | None = None,
) -> dict[str, Any]:
    """The record of one episode of `agent`, as it stands on disk."""

    async def offer(_: Task) -> tuple[Manifest, ...]:
        return tools

    suite = LabelledTasks(name="one", tasks=(TASK,))
    async with RunDirectory.open(folder / "run", {}) as directory:
        driver = Driver(suite, agent, client, directory, concurrency=1, limits=limits, offer=offer)
        await driver.run(1)
    record: dict[str, Any] = json.loads((folder / "run" / "episodes.jsonl").read_bytes())
    return record


def opened(played: PlayedModel, **settings: Any) -> Any:
    return ModelClient.open(played.url, "played", None, **settings)


def completion(
    content: str | None = "1685.01",
    finish: str = "stop",
    *,
    model: str = "m",
    tokens: tuple[int, int, int] = (12, 3, 8),
    **message: Any,
) -> bytes:
    """A whole answer, as an endpoint sends it; its tokens are those in, out and cached."""
    said = {"role": "assistant", "content": content, **message}
    usage = {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": tokens[0] + tokens[1],
        "prompt_tokens_details": {"cached_tokens": tokens[2]},
    }
    choice = {"index": 0, "message": said, "finish_reason": finish}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
    return orjson.dumps({**head, "choices": [choice], "usage": usage})
