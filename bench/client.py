"""A client that carries an agent's calls to a gateway at a URL. As with a gateway in this process,
every call leaves one `CallRecord` in the trace, and what the agent gets is a `Result`.

What answers is not trusted: its answer is bounded and checked, and no redirect is followed. What is
no envelope becomes an error that says what is wrong with it.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from itertools import count
from typing import Annotated, Any, Protocol, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import anyio
import orjson
from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yarl import URL

from adapters.fault import UpstreamFault
from adapters.http import IDENTITY, read_body
from bench.environment import GATEWAY_KEY
from bench.record import Figure, Whole
from cache import View
from gateway import CallContext, ErrorCode, Result
from gateway.call import record_of
from gateway.context import CLIENT, QUERY_CHARS
from gateway.errors import CallError, Fault
from gateway.pipeline.bind import masked, printable, redacted
from gateway.result import ProvenanceSource
from gateway.trace import Trace
from manifests.common.problem import first_problem

CONNECTIONS = 256

CALL_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=300.0)
"""Timeouts of a call over HTTP. Waiting for a connection is not the gateway's fault and has no
bound here; the episode's own limit ends it.
"""

HEALTH_S, PAGE_S = 10.0, 60.0
HEALTH_BYTES = 2**20

BODY_BYTES = 32 * 2**20
"""The longest answer that is read: twice what a gateway keeps of an upstream's answer."""

READ_AT_ONCE = 2**18
"""Bytes of an answer from which it is read in a thread: it would hold the event loop for 1 ms."""

LONG = 2**20
"""Bytes of a body from which aiohttp wants a file."""

_Text = TypeVar("_Text", bytes, bytes | bytearray)
_OF_A_HOST = {"in_flight", "waiting", "breaker"}


class GatewayUnreachableError(Exception):
    """No gateway answers at the given URL, or it refuses this client; the text says which."""


class NoGatewayError(Exception):
    """What answered is no gateway; the text says so, and what is wrong with the answer."""

    def __init__(self, wrong: str) -> None:
        super().__init__(f"what answered is no gateway: {wrong}")


class ToolClient(Protocol):
    """Makes calls, as `Gateway` does. However a call ends, no exception is raised.

    Of a call's context the episode, the step, the deadline and the budget with its question count,
    and through `HttpClient` the number of rows.
    """

    async def call(
        self, tool: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Result: ...


class Untraced:
    """A trace that keeps nothing, for calls that are recorded elsewhere or not at all."""

    failure: str | None = None
    full = blocked = False

    def put(self, record: object) -> None: ...

    async def room(self) -> None: ...


class HttpClient:
    """Makes calls to a gateway at a URL, each as one request. Made by `HttpClient.open`.

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
        cls, base_url: str, trace: Trace, key: str | None = None, **options: Any
    ) -> AsyncIterator[Self]:
        """`key` is sent in a header and nowhere else. The `options` are those of the class."""
        # The client's name is one of its own, so that no run starves another.
        headers = {CLIENT: f"finbench-{uuid4().hex[:12]}", **IDENTITY}
        if key:
            headers["Authorization"] = f"Bearer {key.strip()}"
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
            headers=headers,
            timeout=CALL_TIMEOUT,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        ) as session:
            client = cls(session, base_url, trace, **options)
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await client._close()

    async def _close(self) -> None:
        return

    async def health(self) -> dict[str, Any]:
        """The answer of the gateway's `/healthz`. Raises `GatewayUnreachableError`."""
        _, health = await self._page("/healthz", {}, HEALTH_S, HEALTH_BYTES)
        if not isinstance(health, dict) or "status" not in health:
            raise GatewayUnreachableError(f"what answers at {self._base_url} is no gateway")
        if "upstream" not in health:  # a gateway gives this only to clients that may call it
            text = f"the gateway at {self._base_url} wants a key"
            raise GatewayUnreachableError(f"{text}: set {GATEWAY_KEY} to one that it knows")
        return health

    async def get(self, path: str, query: Mapping[str, Any], *, missing: Any = ...) -> Any:
        """The JSON of a page of the gateway; `missing`, if it is given, for one that there is not.
        Raises `GatewayUnreachableError`, with what the gateway refuses.
        """
        status, said = await self._page(path, query, PAGE_S, BODY_BYTES)
        if status == 404 and missing is not ...:
            return missing
        if status < 300:
            return said
        refusal = said.get("error") if isinstance(said, dict) else None
        told = refusal.get("message") if isinstance(refusal, dict) else status
        raise GatewayUnreachableError(f"{self._base_url}{path}: {printable(str(told))}")

    async def _page(
        self, path: str, query: Mapping[str, Any], most_s: float, most: int
    ) -> tuple[int, Any]:
        """The status and the JSON of a page, of at most so many bytes. Raises
        `GatewayUnreachableError`.
        """
        timeout = aiohttp.ClientTimeout(total=most_s)
        try:
            url = URL(f"{self._base_url}{path}", encoded=True).with_query(query)
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                return response.status, orjson.loads(await body_of(response, most))
        except NoGatewayError as error:
            raise GatewayUnreachableError(f"{self._base_url}: {error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = f"no gateway answers at {self._base_url}: {type(error).__name__}"
            raise GatewayUnreachableError(text) from None

    async def hosts(self) -> dict[str, dict[str, Any]]:
        try:
            hosts = (await self.health()).get("hosts")
        except GatewayUnreachableError:
            return {}
        reported = hosts.items() if isinstance(hosts, dict) else ()
        return {
            name: of for name, of in reported if isinstance(of, dict) and of.keys() >= _OF_A_HOST
        }

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        self.made += 1
        started = time.perf_counter()
        try:
            result = await self._post(tool, arguments, context)
        except BaseException:
            result = failed(ErrorCode.CANCELLED, "the caller went away")
            raise
        finally:
            result.tool = printable(tool)
            result.call_id = result.call_id or f"unanswered-{next(self._unanswered)}"
            result.elapsed_ms = round((time.perf_counter() - started) * 1e3, 3)
            given = masked(arguments) if result.error is None else redacted(arguments)
            self._trace.put(record_of(result, None, given, context))
        if self._trace.full:
            await self._trace.room()
        return result

    async def _post(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        """The result of a call; without a valid answer it is an error of the gateway."""
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
        return await self._read(body, result_in)

    async def _read(self, text: _Text, read: Callable[[_Text], Result]) -> Result:
        """The result in an answer, or an error of the gateway if there is none."""
        try:
            if len(text) < READ_AT_ONCE:
                return read(text)
            return await to_thread.run_sync(read, text)
        except NoGatewayError as error:
            return self._silence(str(error))

    def _silence(self, text: str) -> Result:
        self.unanswered += 1
        self.first_silence = self.first_silence or text
        return failed(ErrorCode.INTERNAL, text)


def options_of(context: CallContext) -> dict[str, Any]:
    """The options of a call as a gateway takes them in a query or in a line."""
    options: dict[str, Any] = {}
    if context.deadline_s is not None:
        options["timeout_s"] = context.deadline_s
    if context.max_rows is not None:
        options["max_rows"] = context.max_rows
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


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


_Id = Annotated[str, Field(min_length=1, max_length=128)]
_Count = Annotated[Whole, Field(ge=0)]


class _ErrorProvenance(_Strict):
    call_id: _Id
    attempts: _Count
    source: ProvenanceSource | None


class _Provenance(_ErrorProvenance):
    source: ProvenanceSource
    upstream: str
    digest: str
    age_s: Figure
    snapshot: str | None = None


class _Error(_Strict):
    code: Annotated[ErrorCode, Field(strict=False)]
    fault: Fault
    message: str


class _Envelope(_Strict):
    """The envelope of an answer, with all that its record needs."""

    data: Any
    rows: _Count | None
    provenance: _Provenance
    columns: list[str] | None = None
    truncated: bool = False
    offset: int = 0
    handle: str | None = None
    compression: Any = None

    def result(self, data: bytes | None) -> Result:
        """The result; `data` is its JSON in the form that the gateway caches, if that is known."""
        is_text = "compression" in self.model_fields_set
        if is_text and not isinstance(self.data, str):
            raise NoGatewayError("its answer has a compression, and data that is no text")
        made = self.provenance
        return Result(
            "",
            made.call_id,
            attempts=made.attempts,
            view=View(data or self._cached(), self.truncated, b"", self.offset, is_text=is_text),
            rows=self.rows,
            columns=None if self.columns is None else tuple(self.columns),
            handle=self.handle,
            source=made.source,
            upstream=made.upstream,
            snapshot=made.snapshot,
            digest=made.digest,
            age_s=made.age_s,
        )

    def _cached(self) -> bytes:
        """The data in the form that the gateway caches: one record of a table a line."""
        if isinstance(self.data, list) and self.rows is not None:
            return b"[" + b",\n".join(map(orjson.dumps, self.data)) + b"]"
        return orjson.dumps(self.data)


class _ErrorEnvelope(_Strict):
    """The envelope of an error. One that belongs to no call has no provenance."""

    error: _Error
    provenance: _ErrorProvenance | None = None
    call_id: _Id | None = None

    def result(self, _: bytes | None) -> Result:
        error, made = self.error, self.provenance
        why = CallError(error.code, error.message, by=error.fault)
        if made is None:
            return Result("", self.call_id or "", error=why)
        return Result("", made.call_id, attempts=made.attempts, source=made.source, error=why)


def result_in(
    text: bytes | bytearray,
    data_in: Callable[[Any, dict[str, Any]], bytes | None] = lambda *_: None,
) -> Result:
    """The result in an answer of a gateway. `data_in` finds the data in the text without encoding
    it again, if that can be done. Raises `NoGatewayError`.
    """
    try:
        envelope = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NoGatewayError("its answer is no JSON") from None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("ok"), bool):
        raise NoGatewayError("its answer has no ok, true or false")
    kind: type[_Envelope] | type[_ErrorEnvelope] = _Envelope if envelope["ok"] else _ErrorEnvelope
    try:
        answer = kind.model_validate(envelope)
    except ValidationError as error:
        raise NoGatewayError(f"its answer's {first_problem(error)}") from None
    return answer.result(data_in(text, envelope) if envelope["ok"] else None)


def not_json(error: TypeError) -> Result:
    """The result of a call whose arguments can't be sent."""
    return failed(ErrorCode.INVALID_REQUEST, f"the arguments are not JSON: {error}")


def failed(code: ErrorCode, message: str) -> Result:
    """The result of a call that no gateway answered."""
    return Result("", "", error=CallError(code, message))
