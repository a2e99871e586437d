"""How an agent's calls reach a gateway: in this process, or over HTTP. Either way every call leaves
one `CallRecord` in the trace.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from gateway import CallContext, CallRecord, Gateway
from gateway.bind import redacted
from gateway.trace import Trace

CONNECTIONS = 256


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call brought the agent: the JSON text of the answer, or an error."""

    ok: bool
    call_id: str
    output: str = ""
    code: str | None = None
    fault: str | None = None
    message: str | None = None
    source: str | None = None
    elapsed_ms: float = 0.0


class ToolClient(Protocol):
    """Makes calls. Never raises for anything a call can end with."""

    async def call(
        self, tool: str, arguments: Mapping[str, Any], episode: str, step: int
    ) -> Reply: ...


class EmbeddedClient:
    """Calls a gateway in this process, which records them itself."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def call(self, tool: str, arguments: Mapping[str, Any], episode: str, step: int) -> Reply:
        result = await self._gateway.call(tool, arguments, CallContext(episode=episode, step=step))
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
            output=result.data.decode(),
            source=result.source,
            elapsed_ms=result.elapsed_ms,
        )


class HttpClient:
    """Calls a gateway at a URL. Made by `HttpClient.open`."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, trace: Trace) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._trace = trace
        self._unanswered = count(1)

    @classmethod
    @asynccontextmanager
    async def open(cls, base_url: str, trace: Trace) -> AsyncIterator["HttpClient"]:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(session, base_url, trace)

    async def call(self, tool: str, arguments: Mapping[str, Any], episode: str, step: int) -> Reply:
        at, started = time.time(), time.perf_counter()
        envelope = await self._post(tool, arguments)
        elapsed_ms = round((time.perf_counter() - started) * 1e3, 3)
        error = envelope.get("error") or {}
        provenance = envelope.get("provenance") or {}
        output = orjson.dumps(envelope["data"]).decode() if envelope["ok"] else ""
        call_id = provenance.get("call_id") or envelope.get("call_id")
        record = CallRecord(
            call_id=call_id or f"unanswered-{next(self._unanswered)}",
            at=round(at, 3),
            tool=tool,
            host=None,
            arguments=redacted(arguments),
            ok=envelope["ok"],
            code=error.get("code"),
            fault=error.get("fault"),
            message=error.get("message"),
            source=provenance.get("source"),
            upstream=provenance.get("upstream"),
            age_s=provenance.get("age_s", 0.0),
            attempts=provenance.get("attempts", 0),
            elapsed_ms=elapsed_ms,
            rows=envelope.get("rows"),
            bytes=len(output),
            episode=episode,
            step=step,
        )
        self._trace.put(record)
        if self._trace.full:
            await self._trace.room()
        return Reply(
            record.ok,
            record.call_id,
            output=output,
            code=record.code,
            fault=record.fault,
            message=record.message,
            source=record.source,
            elapsed_ms=elapsed_ms,
        )

    async def _post(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The envelope; a gateway that does not answer is an error of the gateway."""
        url = URL(f"{self._base_url}/v1/tools/{quote(tool, safe='')}", encoded=True)
        try:
            async with self._session.post(url, data=orjson.dumps(arguments)) as response:
                envelope: dict[str, Any] = orjson.loads(await response.read())
                return envelope
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            text = f"the gateway did not answer: {type(error).__name__}"
            return {"ok": False, "error": {"code": "internal", "fault": "gateway", "message": text}}
