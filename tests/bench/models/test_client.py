"""The model's client against real servers on the loopback interface, beside the official one."""

import asyncio
import gzip
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from email.utils import formatdate
from itertools import chain, repeat
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI, OpenAIError
from yarl import URL

from bench.models import client as model_module
from bench.models.client import (
    Completion,
    FunctionCall,
    ModelClient,
    ModelError,
    asked_pause_s,
    is_worth_another,
    pause_s,
)
from bench.models.completion import StreamedAnswer, read_answer
from bench.record import ModelCallRecord
from tests.support.played_model import completion
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

KEY = "sk-planted+key/0451=="
MESSAGES = [{"role": "user", "content": "茅台 closed at?"}]
CALL = FunctionCall("call_1", "get_coin", '{"uuid": "a"}')

Play = Callable[[web.Request], Awaitable[web.StreamResponse]]


def say(
    status: int = 200, body: bytes | None = None, kind: str = "application/json", **headers: str
) -> Play:
    """A whole answer; `_` in the names of headers stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def play(_: web.Request) -> web.StreamResponse:
        default = completion() if status == 200 else b'{"error": {"message": "no"}}'
        said = default if body is None else body
        return web.Response(status=status, body=said, content_type=kind, headers=named)

    return play


async def drop(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def truncate(request: web.Request) -> web.StreamResponse:
    """Half of an answer, and no more."""
    response = web.StreamResponse()
    response.content_length = len(completion())
    await response.prepare(request)
    await response.write(completion()[:20])
    return await drop(request)


def stream(*pieces: bytes, lose: bool = False) -> Play:
    """Each piece is sent by itself; at the end the connection may be lost."""

    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        return await drop(request) if lose else response

    return play


def event(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return b"data: %s\n\n" % orjson.dumps({**head, "choices": choices, **more})


DONE = b"data: [DONE]\n\n"


class Endpoint:
    """Plays a script, one part a request, the last one again and again."""

    def __init__(self, script: Iterator[Play]) -> None:
        self.base_url = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._script = script

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(orjson.loads(await request.read()))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        return await next(self._script)(request)


@asynccontextmanager
async def endpoint(*script: Play) -> AsyncIterator[Endpoint]:
    opened = Endpoint(chain(script, repeat(script[-1])))
    async with upstream(opened.answer, is_cancelled=True, most=2**26) as url:
        opened.base_url = f"{url}/v1"
        yield opened


def a_record() -> ModelCallRecord:
    return ModelCallRecord(2, "act", "m", 0.0, 0.0)


async def ask(
    *script: Play, options: dict[str, Any] | None = None, **asked: Any
) -> tuple[Completion | ModelError, ModelCallRecord, Endpoint]:
    record = a_record()
    async with (
        endpoint(*script) as opened,
        ModelClient.open(opened.base_url, "m", KEY, **options or {}) as client,
    ):
        try:
            said: Completion | ModelError
            said = await client.complete(asked.pop("messages", MESSAGES), record=record, **asked)
        except ModelError as error:
            said = error
        return said, record, opened


async def failure(*script: Play, **options: Any) -> tuple[str, ModelCallRecord]:
    said, record, _ = await ask(*script, options=options)
    assert isinstance(said, ModelError)
    assert record.error == str(said)
    return str(said), record


# What is asked


async def test_a_key_that_an_answer_repeats_goes_no_further() -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": orjson.dumps({"k": KEY}).decode()}}
    body = completion(f"you sent Bearer {KEY}", "tool_calls", tool_calls=[call])
    said, record, _ = await ask(say(body=body))
    assert isinstance(said, Completion)
    assert said.content == "you sent Bearer ***"
    assert said.calls == (FunctionCall("1", "f", '{"k":"***"}'),)
    assert KEY not in str(asdict(record))


async def test_a_request_is_what_the_api_takes() -> None:
    tools = [b'{"type":"function","function":{"name":"a"}}', b'{"type": "function"}']
    options = {"temperature": 0.0, "max_tokens": 9, "seed": 3}
    given: dict[str, Any] = {"body": options, "headers": {"X-Plan": "basic"}}
    _, _, opened = await ask(say(), options=given, tools=tools, tool_choice="none")
    (body,), (headers,) = opened.bodies, opened.headers
    assert body == {
        "model": "m",
        "messages": MESSAGES,
        "tools": [orjson.loads(tool) for tool in tools],
        "tool_choice": "none",
        **options,
    }
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"
    assert headers["x-plan"] == "basic"


async def test_the_thoughts_of_a_model_are_recorded_and_mask_secrets() -> None:
    secret = {"headers": {"X-Key": "planted-in-a-header"}}
    said = completion("3", reasoning_content="the header is planted-in-a-header; so 3")
    _, record, _ = await ask(say(body=said), options=secret)
    assert record.reasoning == "the header is ***; so 3"
    pieces = [{"reasoning": "first "}, {"reasoning": "then"}, {"content": "3"}]
    events: list[Any] = [{"choices": [{"delta": piece}]} for piece in pieces]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    parts = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events]
    _, record, _ = await ask(stream(*parts, b"data: [DONE]\n\n"), options={"stream": True})
    assert record.reasoning == "first then"


async def test_what_is_not_said_is_not_sent() -> None:
    _, _, opened = await ask(say())
    assert opened.bodies == [{"model": "m", "messages": MESSAGES}]
    async with endpoint(say()) as bare, ModelClient.open(bare.base_url, "m", None) as client:
        await client.complete(MESSAGES, record=a_record())
    assert "authorization" not in bare.headers[0]


async def test_a_stream_is_asked_for_with_its_usage() -> None:
    _, _, opened = await ask(say(), options={"stream": True})
    assert opened.bodies[0]["stream"] is True
    assert opened.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_long_conversation_is_sent_whole() -> None:
    messages = [{"role": "user", "content": "长" * 2**20}]
    said, _, opened = await ask(say(500, retry_after_ms="1"), say(), messages=messages)
    assert isinstance(said, Completion)
    assert [body["messages"] for body in opened.bodies] == [messages, messages]


async def test_messages_that_are_no_json_are_refused() -> None:
    said, record, opened = await ask(say(), messages=[{"content": "\ud800"}])
    assert isinstance(said, ModelError)
    assert (record.attempts, opened.bodies) == (0, [])


# What is answered


async def test_an_answer_is_read_and_recorded() -> None:
    calls = [{"id": "call_1", "type": "function", "function": asdict(CALL)}]
    message: dict[str, Any] = {"tool_calls": calls, "refusal": None}
    said, record, _ = await ask(say(body=completion(None, "tool_calls", **message)))
    assert said == Completion("", (CALL,), None, "tool_calls")
    assert (record.input_tokens, record.cached_tokens, record.output_tokens) == (12, 8, 3)
    assert (record.finish, record.error, record.attempts) == ("tool_calls", None, 1)
    assert record.answered_by == orjson.loads(completion())["model"]
    assert abs(record.at - time.time()) < 60
    assert 0 < record.elapsed_ms < 60_000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion(), Completion("1685.01", finish="stop")),
        (completion(None, refusal="I won't"), Completion("", (), "I won't", "stop")),
        (completion("", "content_filter"), Completion("", finish="content_filter")),
        (b'{"choices": [{"message": {}}]}', Completion("")),
        (completion("九" * 2**18), Completion("九" * 2**18, finish="stop")),
        (
            completion(tool_calls=[{"function": {"name": "a", "arguments": {"b": 1}}}]),
            Completion("1685.01", (FunctionCall("", "a", '{"b":1}'),), None, "stop"),
        ),
        (
            completion(tool_calls=[{"id": "", "function": {"name": "a", "arguments": None}}]),
            Completion("1685.01", (FunctionCall("", "a", ""),), None, "stop"),
        ),
    ],
    ids=["text", "refusal", "filter", "bare", "long", "no id", "empty id"],
)
async def test_forms_of_answers(body: bytes, expected: Completion) -> None:
    said, _, _ = await ask(say(body=body))
    assert said == expected


async def test_an_answer_that_is_compressed_unasked_is_read() -> None:
    said, _, _ = await ask(say(body=gzip.compress(completion()), Content_Encoding="gzip"))
    assert said == Completion("1685.01", finish="stop")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("play", "text"),
    [
        (say(body=b""), "an empty answer"),
        (say(body=b"<!doctype html><p>Wait</p>", kind="text/html"), "an HTML page"),
        (say(body=b"busy, come later"), "busy, come later"),
        (say(body=b"[1]"), "no object"),
        (say(body=b"{}"), "no message"),
        (say(body=b'{"choices": []}'), "no message"),
        (say(body=b'{"choices": [{"message": {"content": 5}}]}'), "no chat completion"),
        (say(body=b'{"error": {"message": "no such model", "code": 404}}'), "no such model"),
        (say(302, Location="https://elsewhere.invalid/"), "a redirect is not followed"),
        (say(404, b'{"detail": "Not Found"}'), "404: Not Found"),
        (say(401, b'{"error": "bad key"}'), "401: bad key"),
        (say(403, b"<html>", kind="text/html"), "403: an HTML page"),
        (say(400, b""), "answered 400"),
        (say(body=b" " * (2**24 + 1)), "over 16777216 bytes"),
        (stream(*[b" " * 2**20] * 17), "over 16777216 bytes"),
        (say(body=gzip.compress(b" " * (2**24 + 1)), Content_Encoding="gzip"), "over 16777216"),
        (say(body=b"?", Content_Encoding="zstd"), "a content coding that was not asked for"),
    ],
)
async def test_what_is_no_answer_is_an_error_at_once(play: Play, text: str, stream: bool) -> None:
    said, record = await failure(play, stream=stream)
    assert text in said
    assert record.attempts == 1
    assert len(said) <= 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)


def mostly(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(value, value, value, JSON)


FUNCTION = mostly(st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON}))
CALLS = mostly(st.lists(mostly(st.fixed_dictionaries({"function": FUNCTION}))))
MESSAGE = mostly(
    st.fixed_dictionaries({}, optional={"content": JSON, "refusal": JSON, "tool_calls": CALLS})
)
CHOICE = mostly(
    st.fixed_dictionaries({"message": MESSAGE, "delta": MESSAGE}, optional={"finish_reason": JSON})
)
ANSWER = mostly(
    st.fixed_dictionaries({"choices": mostly(st.lists(CHOICE))}, optional={"usage": JSON})
)


@settings(max_examples=100)
@given(ANSWER)
def test_any_json_is_a_completion_or_an_error(value: Any) -> None:
    try:
        said, usage = read_answer(json.dumps(value).encode())
    except ModelError:
        return
    assert isinstance(said, Completion)
    assert isinstance(said.content, str)
    assert all(call.name and isinstance(call.arguments, str) for call in said.calls)
    assert min(usage.input_tokens, usage.cached_tokens, usage.output_tokens) >= 0


@settings(max_examples=100)
@given(st.lists(ANSWER, max_size=2), st.binary())
def test_any_stream_is_a_completion_or_an_error(values: list[Any], rest: bytes) -> None:
    answer = StreamedAnswer()
    try:
        for value in values:
            answer.feed(b"data: %s\n\n" % json.dumps(value).encode())
        answer.feed(rest)
        result = answer.result()
    except ModelError:
        return
    assert result is None or isinstance(result[0], Completion)


# Streams

CALL_EVENTS = [
    event({"role": "assistant", "content": None, "tool_calls": [
        {"index": 0, "id": "call_1", "type": "function",
         "function": {"name": "get_coin", "arguments": ""}}]}),
    event({"tool_calls": [{"index": 0, "function": {"arguments": '{"uuid": '}}]}),
    event({"tool_calls": [{"index": 1, "id": "call_2", "function": {"name": "b"}},
                          {"index": 0, "function": {"arguments": '"a"}'}}]}),
    event({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
    event({}, "tool_calls"),
    event(None, usage={"prompt_tokens": 7, "completion_tokens": 2}),
    DONE,
]  # fmt: skip
TEXT_EVENTS = [event({"content": "16"}), event({"content": "85 元"}), event({}, "stop"), DONE]


async def test_pieces_of_a_stream_are_joined() -> None:
    said, record, _ = await ask(stream(*CALL_EVENTS), options={"stream": True})
    assert said == Completion("", (CALL, FunctionCall("call_2", "b", "{}")), None, "tool_calls")
    assert (record.input_tokens, record.output_tokens, record.attempts) == (7, 2, 1)
    assert record.answered_by == "m"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (TEXT_EVENTS, Completion("1685 元", finish="stop")),
        (TEXT_EVENTS[:-1], Completion("1685 元", finish="stop")),
        (
            [event({"refusal": "I "}), event({"refusal": "won't"}, "stop"), DONE],
            Completion("", (), "I won't", "stop"),
        ),
        ([b": ping\n\nevent: x\nid: 1\n", *TEXT_EVENTS], Completion("1685 元", finish="stop")),
        (
            [e.replace(b"\n", b"\r\n").replace(b"data: ", b"data:") for e in TEXT_EVENTS],
            Completion("1685 元", finish="stop"),
        ),
        ([b'data: {"choices": [{"delta": {"content": "a"},\ndata: "finish_reason": "stop"}]}\n\n'],
         Completion("a", finish="stop")),
        (
            [event({"tool_calls": [{"id": n, "function": {"name": n, "arguments": "{}"}}]})
             for n in "ab"] + [event({}, "tool_calls")],
            Completion(
                "", (FunctionCall("a", "a", "{}"), FunctionCall("b", "b", "{}")), None, "tool_calls"
            ),
        ),
        (
            [event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f",
                    "arguments": part}}]}) for part in ("{", "}")] + [event({}, "length")],
            Completion("", (FunctionCall("a", "f", "{}"),), None, "length"),
        ),
    ],
    ids=["text", "no done", "refusal", "comments", "crlf", "lines", "no index", "repeated name"],
)  # fmt: skip
async def test_forms_of_streams(events: list[bytes], expected: Completion) -> None:
    said, record, _ = await ask(stream(*events), options={"stream": True})
    assert said == expected
    assert record.finish == expected.finish


@given(st.lists(st.integers(1, 40), min_size=1), st.sampled_from([CALL_EVENTS, TEXT_EVENTS]))
def test_a_stream_means_the_same_however_it_is_cut(sizes: list[int], events: list[bytes]) -> None:
    whole, cut = StreamedAnswer(), StreamedAnswer()
    sent = b"".join(events)
    whole.feed(sent)
    for size in chain(sizes, repeat(sizes[-1])):
        cut.feed(sent[:size])
        sent = sent[size:]
        if not sent:
            break
    assert cut.is_done
    assert cut.result() == whole.result() != None  # noqa: E711 - neither is None


async def test_many_pieces_of_calls_without_index_are_put_together() -> None:
    pieces = [{"id": f"c{n % 900}", "function": {"name": "f", "arguments": "ab"}}
              for n in range(30_000)]  # fmt: skip
    events = [event({"tool_calls": pieces[at : at + 100]}) for at in range(0, len(pieces), 100)]
    more = event({"tool_calls": [{"function": {"arguments": "c"}}] * 30_000})
    said, _, _ = await ask(
        stream(b"".join(events), more, event({}, "tool_calls")), options={"stream": True}
    )
    assert isinstance(said, Completion)
    assert [call.id for call in said.calls] == [f"c{n}" for n in range(900)]
    assert {len(call.arguments) for call in said.calls[:-1]} == {66, 68}
    assert said.calls[-1].arguments == "ab" * 33 + "c" * 30_000


async def test_a_stream_without_end_ends_with_its_caller() -> None:
    is_flowing = asyncio.Event()

    async def play(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"data: {}\n\n" * 10_000)
            is_flowing.set()

    asked = asyncio.create_task(ask(play, options={"stream": True}))
    await is_flowing.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_stream_of_too_many_bytes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.models.completion.MAX_STREAM_BYTES", 10_000)
    said, _ = await failure(stream(b": nothing new\n" * 1_000), stream=True)
    assert said == "the model's stream is over 10000 bytes"


async def test_a_stream_that_breaks_off_is_tried_again() -> None:
    lost, ended = stream(*TEXT_EVENTS[:2], lose=True), stream(*TEXT_EVENTS[:2], DONE)
    options = {"stream": True, "retries": 1}
    (again, record, _), *failures = await asyncio.gather(
        ask(lost, stream(*TEXT_EVENTS), options=options),
        ask(ended, lost, options=options),
        ask(lost, ended, options=options),
    )
    assert again == Completion("1685 元", finish="stop")
    assert (record.attempts, record.error) == (2, None)
    for said, record, _ in failures:
        assert "after 2 attempts: the model's endpoint broke" in str(said)
        assert (record.attempts, record.finish) == (2, None)


async def test_tokens_of_attempts_that_failed_are_counted() -> None:
    counted = event(None, usage={"prompt_tokens": 7, "completion_tokens": 2})
    lost = stream(TEXT_EVENTS[0], counted, lose=True)
    options = {"stream": True, "retries": 1}
    _, again, _ = await ask(lost, stream(*TEXT_EVENTS[:3], counted, DONE), options=options)
    assert (again.input_tokens, again.output_tokens, again.error) == (14, 4, None)
    said = orjson.dumps({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
    _, odd = await failure(say(body=said))
    assert (odd.input_tokens, odd.output_tokens) == (5, 1)


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([event({"content": "1"}), b'data: {"error": {"message": "overloaded"}}\n\n'], "overload"),
        ([b"data: {oh no\n\n"], "{oh no"),
        ([b"data: [1]\n\n"], "no object"),
        ([event({"content": ["1"]})], "no chat completion"),
        ([event({"tool_calls": [{"index": 0}]}, "tool_calls")], "without the name"),
        ([event({"content": "9" * 2**20})] * 17, "over 16777216 bytes"),
        ([event({"tool_calls": [{"id": f"{n}"} for n in range(40_000)]})], "over 1000 calls"),
        (
            [event({"tool_calls": [{"function": {"name": f"{n}"}}]}) for n in range(1_000)],
            "in over 1000 characters",
        ),
        ([b"data:\n" * 2**17] * 4, "over 16777216 bytes"),
    ],
    ids=[
        "error",
        "no json",
        "no object",
        "no text",
        "no name",
        "too large",
        "calls",
        "long name",
        "lines",
    ],
)
async def test_a_stream_that_makes_no_sense_is_an_error(events: list[bytes], text: str) -> None:
    said, record = await failure(stream(*events), stream=True)
    assert text in said
    assert record.attempts == 1


async def test_a_connection_serves_again_after_a_stream() -> None:
    ports = set()

    async def play(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return await stream(*TEXT_EVENTS)(request)

    async with (
        endpoint(play) as opened,
        ModelClient.open(opened.base_url, "m", KEY, stream=True) as client,
    ):
        for _ in range(3):
            await client.complete(MESSAGES, record=a_record())
    assert len(ports) == 1


# Trouble, beside the official client

SOON = "10"
TROUBLE: dict[str, tuple[Play, ...]] = {
    "429 once": (say(429, retry_after_ms=SOON), say()),
    "429 for good": (say(429, retry_after_ms=SOON),),
    "500 three times": (say(500, retry_after_ms=SOON),) * 3 + (say(),),
    "503 without a header": (say(503), say()),
    "408": (say(408, retry_after_ms=SOON), say()),
    "409": (say(409, retry_after_ms=SOON), say()),
    "529": (say(529, retry_after_ms=SOON), say()),
    "400": (say(400), say()),
    "401": (say(401), say()),
    "403": (say(403), say()),
    "404": (say(404), say()),
    "422": (say(422), say()),
    "retry-after in seconds": (say(429, retry_after="0.01"), say()),
    "retry-after as a date": (say(429, retry_after=formatdate(time.time() + 1)), say()),
    "retry-after too long": (say(429, retry_after="121"), say()),
    "retry-after in milliseconds goes first": (
        say(429, retry_after_ms=SOON, retry_after="500"),
        say(),
    ),
    "x-should-retry: false": (say(500, x_should_retry="false"), say()),
    "x-should-retry: true": (say(400, x_should_retry="true", retry_after_ms=SOON), say()),
    "too long, though x-should-retry": (say(503, x_should_retry="true", retry_after="500"), say()),
    "dropped once": (drop, say()),
    "dropped for good": (drop,),
    "dropped in the middle": (truncate, say()),
    "timeout once": (hang, say()),
    "timeout for good": (hang,),
    "no json": (say(body=b"{oh no"), say()),
}


LIMITS_S = {"timeout once": 3.0, "timeout for good": 0.2}
"""For one attempt. What is to fail may have little time, what is to succeed may not."""


async def official(
    transport: Any, attempts: Counter[int], script: tuple[Play, ...], limit_s: float
) -> tuple[int, bool]:
    """How often the official client tried, and whether it got the answer."""
    async with endpoint(*script) as opened:
        client = AsyncOpenAI(
            base_url=opened.base_url, api_key=KEY, timeout=limit_s, http_client=transport
        )
        messages: Any = MESSAGES
        try:
            said = await client.chat.completions.create(model="m", messages=messages)
            is_good = said.choices[0].message.content == "1685.01"
        except (OpenAIError, ValueError):
            is_good = False
        return attempts[URL(opened.base_url).port or 0], is_good


async def own(script: tuple[Play, ...], limit_s: float) -> tuple[int, bool]:
    said, record, opened = await ask(*script, options={"attempt_s": limit_s})
    assert record.attempts >= len(opened.bodies)  # one that ran out of time may have sent nothing
    is_good = isinstance(said, Completion) and said.content == "1685.01"
    return record.attempts, is_good


async def test_what_is_tried_again_is_what_the_official_client_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_module, "CONNECT_S", PATIENCE_S)
    attempts = Counter[int]()

    async def count(request: Any) -> None:
        attempts[request.url.port] += 1

    played = [(script, LIMITS_S.get(name, PATIENCE_S)) for name, script in TROUBLE.items()]
    async with DefaultAsyncHttpxClient(event_hooks={"request": [count]}) as transport:
        ended = await asyncio.gather(
            *(official(transport, attempts, script, limit) for script, limit in played),
            *(own(script, limit) for script, limit in played),
        )
    theirs, ours = ended[: len(played)], ended[len(played) :]
    assert dict(zip(TROUBLE, ours, strict=True)) == dict(zip(TROUBLE, theirs, strict=True))
    assert {tries for tries, _ in theirs} == {1, 2, 3}


NUMBERS = st.floats().map(str) | st.integers().map(str) | st.sampled_from(
    ["inf", "+Infinity", "-inf", "1e999", "120", "120.5", "0", "-1", " 3 ", "120000", "120001"]
)  # fmt: skip
DATES = st.floats(-1e3, 1e5).map(lambda s: formatdate(time.time() + 300 + s, usegmt=True))
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "retry-after-ms": NUMBERS | st.sampled_from(["", "soon"]),
        "retry-after": NUMBERS | DATES | st.sampled_from(["", "soon", "Wed, 99 Foo"]),
        "x-should-retry": st.sampled_from(["true", "false", "maybe", ""]),
    },
)


@pytest.fixture(scope="module")
def sdk() -> Iterator[OpenAI]:
    with OpenAI(api_key=KEY) as client:
        yield client


@given(
    status=st.sampled_from([400, 401, 404, 408, 409, 422, 429, 499, 500, 502, 503, 599]),
    headers=HEADERS,
)
def test_headers_are_read_as_the_official_client_reads_them(
    sdk: OpenAI, status: int, headers: dict[str, str]
) -> None:
    response = httpx2.Response(status, headers=headers)
    now = time.time()
    with pytest.MonkeyPatch.context() as standing:
        standing.setattr(time, "time", lambda: now)
        asked_s, told_s = asked_pause_s(headers), sdk._parse_retry_after_header(response.headers)
    assert is_worth_another(status, headers, asked_s) == sdk._should_retry(response)
    if pause_s(0, asked_s) == asked_s:
        assert asked_s == pytest.approx(told_s)
    else:
        assert told_s is None or not 0 < told_s <= 120


async def test_a_server_that_is_not_there() -> None:
    async with endpoint(say()) as gone:
        pass
    record = a_record()
    async with ModelClient.open(gone.base_url, "m", KEY, retries=0) as client:
        with pytest.raises(ModelError, match="no connection to the model's endpoint"):
            await client.complete(MESSAGES, record=record)
    assert (record.attempts, record.error) == (1, "no connection to the model's endpoint")


async def test_a_server_that_does_not_speak_http() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.invalid ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with ModelClient.open(url, "m", KEY, retries=0) as client:
            with pytest.raises(ModelError, match="does not answer in HTTP"):
                await client.complete(MESSAGES, record=a_record())


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "http://127.0.0.1:port/v1", "nowhere"])
async def test_a_url_that_is_none(url: str) -> None:
    async with ModelClient.open(url, "m", KEY) as client:
        with pytest.raises(ModelError, match="can't be used"):
            await client.complete(MESSAGES, record=a_record())


async def test_a_request_that_finds_no_turn_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "CONNECTIONS", 2)
    record = a_record()
    async with endpoint(hang) as opened, ModelClient.open(opened.base_url, "m", KEY) as client:
        others = [
            asyncio.create_task(client.complete(MESSAGES, record=a_record())) for _ in range(2)
        ]
        await until(lambda: len(opened.bodies) == 2)
        monkeypatch.setattr(model_module, "COMPLETE_S", 0.2)
        with pytest.raises(ModelError, match="2 other requests"):
            await client.complete(MESSAGES, record=record)
        assert (record.attempts, len(opened.bodies)) == (0, 2)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_no_pause_is_begun_that_the_deadline_would_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_module, "COMPLETE_S", 60.0)
    text, record = await failure(say(429, retry_after="100"))
    assert "429: no" in text
    assert record.attempts == 1


async def test_who_is_no_longer_waited_for_is_recorded() -> None:
    record = a_record()
    async with endpoint(hang) as opened, ModelClient.open(opened.base_url, "m", KEY) as client:
        left = asyncio.create_task(client.complete(MESSAGES, record=record))
        await until(lambda: opened.bodies)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
    assert record.error == "broken off: it was no longer waited for"
    assert record.attempts == 1
    assert record.elapsed_ms > 0


# The key

ECHOES: list[Play] = [
    say(401, b'{"error": {"message": "Incorrect API key: %s"}}' % KEY.encode()),
    say(401, b"Incorrect API key: " + KEY.encode(), kind="text/plain"),
    say(400, b'{"k": ["%s"]}' % KEY.replace("/", "\\/").encode()),
    say(403, b"see /help?key=sk-planted%2Bkey%2F0451%3D%3D", kind="text/plain"),
    say(403, b"x" * 4090 + KEY.encode() + b" is wrong", kind="text/plain"),
    say(302, Location=f"https://elsewhere.invalid/?{KEY}"),
    say(body=b"your key is " + KEY.encode()),
    say(body=b'{"error": "%s"}' % KEY.encode()),
    say(body=completion(finish=KEY)),
    stream(event({}, KEY)),
    stream(b"data: %s\n\n" % KEY.encode()),
    stream(b'data: {"error": {"message": "%s"}}\n\n' % KEY.encode()),
]


@pytest.mark.parametrize("play", ECHOES)
async def test_the_key_stays_out_of_errors_and_records(play: Play) -> None:
    said, record, opened = await ask(play, options={"stream": True})
    assert KEY in opened.headers[0]["authorization"]
    left = f"{said} {said!r} {asdict(record)}"
    for form in (KEY, KEY[3:], "planted"):
        assert form not in left


@pytest.mark.parametrize("key", [f"  {KEY}\n", f"{KEY}\nX: y", f"{KEY}\r", "schlüssel-geheim"])
async def test_an_odd_key_does_no_harm(key: str) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text=request.headers["Authorization"])

    record = a_record()
    async with endpoint(echo) as opened:
        async with ModelClient.open(opened.base_url, "m", key) as client:
            with pytest.raises(ModelError) as raised:
                await client.complete(MESSAGES, record=record)
        assert all("x" not in headers for headers in opened.headers)
    left = f"{raised.value!r} {asdict(record)}"
    assert "planted" not in left
    assert "geheim" not in left


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with endpoint(say(418)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url)
        said, _, _ = await ask(say())
        assert isinstance(said, Completion)
        async with ModelClient.open("http://model.invalid/v1", "m", KEY) as client:
            with pytest.raises(ModelError, match="418"):
                await client.complete(MESSAGES, record=a_record())
        assert len(proxy.bodies) == 1
