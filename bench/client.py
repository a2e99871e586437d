"""Clients that carry an agent's calls to a gateway, in this process or over HTTP. Either way every
call leaves one `CallRecord` in the trace.

Over HTTP what answers is not trusted: its answer is bounded and checked, and no redirect is
followed. What is no envelope becomes an error that says what is wrong with it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import orjson
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yarl import URL

from adapters.fault import UpstreamFault
from adapters.http import IDENTITY, read_body
from bench.environment import GATEWAY_KEY
from bench.record import Figure, Whole
from gateway import CallContext, CallRecord, ErrorCode, Gateway, Result
from gateway.context import CLIENT, QUERY_CHARS
from gateway.pipeline.bind import masked, printable, redacted
from gateway.trace import Trace
from manifests.common.problem import first_problem

CONNECTIONS = 256

CALL_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=300.0)
"""Timeouts of a call over HTTP. Waiting for a connection is not the gateway's fault and has no
bound here; the episode's own limit ends it.
"""

HEALTH_S = 10.0
HEALTH_BYTES = 2**20

BODY_BYTES = 32 * 2**20
"""The longest answer that is read: twice what a gateway keeps of an upstream's answer."""

READ_AT_ONCE = 2**18
"""Bytes of an answer from which it is read in a thread: it would hold the event loop for 1 ms."""

LONG = 2**20
"""Bytes of a body from which aiohttp wants a file."""

_Text = TypeVar("_Text", bytes, bytes | bytearray)
_OF_A_HOST = {"in_flight", "waiting", "breaker"}


@dataclass(slots=True)  # frozen would take four times as long to make
class Reply:
    """The result of a call for the agent: the JSON of the answer, or an error.

    For a table of which the gateway left rows out, `part` has how many rows come before these, and
    how many there are in all. If the answer was shortened to a budget, `is_text` says so: then
    `data` is the JSON of a text.
    """

    ok: bool
    call_id: str
    data: bytes = b""
    part: tuple[int, int] | None = None
    code: str | None = None
    fault: str | None = None
    message: str | None = None
    source: str | None = None
    elapsed_ms: float = 0.0
    is_text: bool = False

    def text(self, chars: int | None = None) -> str:
        """The answer as text, or its first `chars`: its JSON, or the text into which it was
        shortened. For an error its message.
        """
        if not self.ok:
            return self.message or self.code or ""
        if self.is_text:
            text: str = orjson.loads(self.data)
            return text[:chars]
        if chars is None:
            return self.data.decode()
        return self.data[: 4 * chars].decode(errors="ignore")[:chars]


class GatewayUnreachableError(Exception):
    """No gateway answers at the given URL, or it refuses this client; the text says which."""


class NoGatewayError(Exception):
    """What answered is no gateway; the text says so, and what is wrong with the answer."""

    def __init__(self, wrong: str) -> None:
        super().__init__(f"what answered is no gateway: {wrong}")


class ToolClient(Protocol):
    """Makes calls. However a call ends, no exception is raised.

    Of a call's context the episode, the step, the deadline and the budget with its question count.
    """

    async def hosts(self) -> dict[str, dict[str, Any]]:
        """The states of the gateway's upstream hosts, by name; empty if it does not give them."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Reply: ...


class EmbeddedClient:
    """Makes calls to a gateway in this process, which records them itself."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def hosts(self) -> dict[str, dict[str, Any]]:
        return self.gateway.answers.hosts.state()

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Reply:
        result = await self.gateway.call(tool, arguments, context)
        if result.error is not None:
            return Reply(
                False,
                result.call_id,
                code=result.error.code.value,
                fault=result.error.fault,
                message=result.error.message,
                elapsed_ms=result.elapsed_ms,
            )
        return Reply(
            True,
            result.call_id,
            data=result.data,
            part=_part_of(result),
            source=result.source,
            elapsed_ms=result.elapsed_ms,
            is_text=result.is_shortened,
        )


class HttpClient:
    """Makes calls to a gateway at a URL. Made by `HttpClient.open`.

    `made` counts all calls and `unanswered` those that no gateway answered; `first_silence` is the
    error of the first of these.
    """

    def __init__(self, session: aiohttp.ClientSession, base_url: str, trace: Trace) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._trace = trace
        self._unanswered = count(1)
        self.made = 0
        self.unanswered = 0
        self.first_silence: str | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, base_url: str, trace: Trace, key: str | None = None
    ) -> AsyncIterator["HttpClient"]:
        """`key` is sent in a header and nowhere else."""
        async with session_of(key) as session:
            yield cls(session, base_url, trace)

    async def health(self) -> dict[str, Any]:
        """The answer of the gateway's `/healthz`. Raises `GatewayUnreachableError`."""
        url, timeout = f"{self._base_url}/healthz", aiohttp.ClientTimeout(total=HEALTH_S)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                health = orjson.loads(await body_of(response, HEALTH_BYTES))
        except NoGatewayError as error:
            raise GatewayUnreachableError(f"{self._base_url}: {error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = f"no gateway answers at {self._base_url}: {type(error).__name__}"
            raise GatewayUnreachableError(text) from None
        if not isinstance(health, dict) or "status" not in health:
            raise GatewayUnreachableError(f"what answers at {self._base_url} is no gateway")
        if "upstream" not in health:  # a gateway gives this only to clients that may call it
            text = f"the gateway at {self._base_url} wants a key"
            raise GatewayUnreachableError(f"{text}: set {GATEWAY_KEY} to one that it knows")
        return health

    async def hosts(self) -> dict[str, dict[str, Any]]:
        try:
            hosts = (await self.health()).get("hosts")
        except GatewayUnreachableError:
            return {}
        reported = hosts.items() if isinstance(hosts, dict) else ()
        return {
            name: of for name, of in reported if isinstance(of, dict) and of.keys() >= _OF_A_HOST
        }

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Reply:
        self.made += 1
        at, started = time.time(), time.perf_counter()
        try:
            envelope = await self._post(tool, arguments, context)
        except asyncio.CancelledError:
            gone = _failed(ErrorCode.CANCELLED, "the caller went away")
            self._trace.put(self._record(gone, tool, arguments, at, started, context))
            raise
        record = self._record(envelope, tool, arguments, at, started, context)
        self._trace.put(record)
        if self._trace.full:
            await self._trace.room()
        return Reply(
            record.ok,
            record.call_id,
            data=envelope["output"] if record.ok else b"",
            part=_part(envelope) if record.ok else None,
            code=record.code,
            fault=record.fault,
            message=record.message,
            source=record.source,
            elapsed_ms=record.elapsed_ms,
            is_text="compression" in envelope,
        )

    def _record(
        self,
        envelope: dict[str, Any],
        tool: str,
        arguments: Mapping[str, Any],
        at: float,
        started: float,
        context: CallContext,
    ) -> CallRecord:
        error = {} if envelope["ok"] else envelope["error"]
        provenance = envelope.get("provenance") or {}
        call_id = provenance.get("call_id") or envelope.get("call_id")
        return CallRecord(
            call_id=call_id or f"unanswered-{next(self._unanswered)}",
            at=round(at, 3),
            tool=printable(tool),
            host=None,
            arguments=masked(arguments) if envelope["ok"] else redacted(arguments),
            ok=envelope["ok"],
            code=error.get("code"),
            fault=error.get("fault"),
            message=error.get("message"),
            source=provenance.get("source"),
            upstream=provenance.get("upstream"),
            age_s=provenance.get("age_s", 0.0),
            attempts=provenance.get("attempts", 0),
            elapsed_ms=round((time.perf_counter() - started) * 1e3, 3),
            rows=envelope.get("rows"),
            digest=provenance.get("digest"),
            bytes=len(envelope.get("output", b"null")),
            episode=context.episode,
            step=context.step,
        )

    async def _post(
        self, tool: str, arguments: Mapping[str, Any], context: CallContext
    ) -> dict[str, Any]:
        """The envelope of an answer; without a valid one it is an error of the gateway."""
        path = f"/v1/tools/{quote(printable(tool), safe='')}"
        try:
            url = URL(f"{self._base_url}{path}", encoded=True)
            if (options := options_of(context)) and "question" in options:
                options["question"] = options["question"][:QUERY_CHARS]
            if options:
                url = url.with_query(options)
            text = orjson.dumps(arguments)
            given = text if len(text) < LONG else BytesIO(text)
            async with self._session.post(url, data=given, allow_redirects=False) as response:
                body = await body_of(response, BODY_BYTES)
        except (aiohttp.ClientError, TimeoutError) as error:
            return self._silence(f"the gateway did not answer: {type(error).__name__}")
        except NoGatewayError as error:
            return self._silence(str(error))
        except TypeError as error:
            return not_json(error)
        return await self._read(body, _envelope)

    async def _read(self, text: _Text, read: Callable[[_Text], dict[str, Any]]) -> dict[str, Any]:
        """The envelope in an answer, or an error of the gateway if there is none."""
        try:
            if len(text) < READ_AT_ONCE:
                return read(text)
            return await to_thread.run_sync(read, text)
        except NoGatewayError as error:
            return self._silence(str(error))

    def _silence(self, text: str) -> dict[str, Any]:
        self.unanswered += 1
        self.first_silence = self.first_silence or text
        return _failed(ErrorCode.INTERNAL, text)


@asynccontextmanager
async def session_of(key: str | None) -> AsyncIterator[aiohttp.ClientSession]:
    """A session for the calls of one run; `key` is sent in a header and nowhere else."""
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    # The client's name is one of its own, so that no run starves another.
    headers = {CLIENT: f"finbench-{uuid4().hex[:12]}", **IDENTITY}
    if key:
        headers["Authorization"] = f"Bearer {key.strip()}"
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        timeout=CALL_TIMEOUT,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as session:
        yield session


def options_of(context: CallContext) -> dict[str, Any]:
    """The options of a call as a gateway takes them in a query or in a line."""
    options: dict[str, Any] = {}
    if context.deadline_s is not None:
        options["timeout_s"] = context.deadline_s
    if context.is_shortened:
        limits = {"max_tokens": context.max_tokens, "max_chars": context.max_chars}
        options |= {name: value for name, value in limits.items() if value is not None}
        options["question"] = context.question
    return options


async def body_of(response: aiohttp.ClientResponse, most: int) -> bytes | bytearray:
    """The body of an answer. Raises `NoGatewayError` if it is over `most` bytes, and for a
    redirect.
    """
    if 300 <= response.status < 400:
        raise NoGatewayError(f"status {response.status}, a redirect, which is not followed")
    try:
        return await read_body(response, most)
    except UpstreamFault as fault:
        raise NoGatewayError(str(fault)) from None


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


_Id = Annotated[str, Field(min_length=1, max_length=128)]
_Count = Annotated[Whole, Field(ge=0)]


class _FailureProvenance(_Part):
    call_id: _Id
    attempts: _Count
    source: str | None


class _Provenance(_FailureProvenance):
    source: str
    upstream: str
    digest: str
    age_s: Figure


class _Error(_Part):
    code: _Id
    fault: _Id
    message: str


class _Answer(_Part):
    """What an answer must have so that its record has all fields."""

    data: Any
    rows: _Count | None
    provenance: _Provenance


class _Failure(_Part):
    """As `_Answer`, for an error. One that belongs to no call has no provenance."""

    error: _Error
    provenance: _FailureProvenance | None = None


def _envelope(text: bytes | bytearray) -> dict[str, Any]:
    """The envelope in an answer of a gateway, and as `output` the data in the form that the gateway
    caches. Raises `NoGatewayError`.
    """
    envelope = checked(text)
    return {**envelope, "output": kept_form(envelope)}


def checked(text: bytes | bytearray) -> dict[str, Any]:
    """The envelope in an answer of a gateway. Raises `NoGatewayError`."""
    try:
        envelope = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NoGatewayError("its answer is no JSON") from None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("ok"), bool):
        raise NoGatewayError("its answer has no ok, true or false")
    try:
        (_Answer if envelope["ok"] else _Failure).model_validate(envelope)
    except ValidationError as error:
        raise NoGatewayError(f"its answer's {first_problem(error)}") from None
    if "compression" in envelope and not isinstance(envelope["data"], str):
        raise NoGatewayError("its answer has a compression, and data that is no text")
    return envelope


def _part_of(result: Result) -> tuple[int, int] | None:
    is_part = result.truncated and not result.is_shortened
    return (result.offset, result.rows or 0) if is_part else None


def _part(envelope: Mapping[str, Any]) -> tuple[int, int] | None:
    match envelope:
        case {"compression": _}:
            return None
        case {"truncated": True, "offset": int(offset), "rows": int(rows)}:
            return offset, rows
    return None


def kept_form(envelope: Mapping[str, Any]) -> bytes:
    """The data in the form that the gateway caches: one record of a table a line."""
    data = envelope.get("data")
    if isinstance(data, list) and envelope.get("rows") is not None:
        return b"[" + b",\n".join(orjson.dumps(record) for record in data) + b"]"
    return orjson.dumps(data)


def not_json(error: TypeError) -> dict[str, Any]:
    """The envelope of a call whose arguments can't be sent."""
    return _failed(ErrorCode.INVALID_REQUEST, f"the arguments are not JSON: {error}")


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code.value, "fault": code.fault, "message": message}}
