"""Calls HTTP APIs as their bindings say, with the credentials that providers name.

Connections are opened on the first call. A public name is not called at a private address unless
its provider allows it, and no redirect is followed. A credential goes only to the binding's own
origin; if the upstream repeats it, it is masked.
"""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from yarl import URL

from adapters.adapter import Adapter
from adapters.conventions import UpstreamErrorBody, error_body_in, words_in
from adapters.fault import UpstreamFault, fault_of_status, fit_for_message
from adapters.http import Reply, Session, open_session, send
from adapters.mask import mask_of
from adapters.normalise import Answer, from_value, masked, read_json, read_text
from adapters.reader import Reader
from adapters.rest.credentials import Credentials, Granted
from adapters.rest.request import Request, request_of
from manifests import Catalog, HttpBinding, Manifest, Scalar

_SAID = ("ETag", "Last-Modified", "Content-Type", "Content-Length", "Link")
"""Headers that make the answer to a HEAD."""


class HttpAdapter(Adapter):
    """Calls HTTP APIs. Made by `HttpAdapter.open`."""

    def __init__(self, catalog: Catalog, reader: Reader, stack: AsyncExitStack) -> None:
        self._catalog = catalog
        self._reader = reader
        self._stack = stack
        self._sessions: dict[bool, Session] = {}
        self._opening = asyncio.Lock()
        self._credentials = Credentials(self._session)

    @classmethod
    @asynccontextmanager
    async def open(cls, catalog: Catalog) -> AsyncIterator["HttpAdapter"]:
        """Open an adapter for the tools of a catalogue, whose providers it has."""
        async with AsyncExitStack() as stack, Reader.open() as reader:
            adapter = cls(catalog, reader, stack)
            stack.push_async_callback(adapter._credentials.close)
            yield adapter

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",  # noqa: ARG002 - its tools have no sessions
    ) -> Answer:
        binding = manifest.binding
        if not isinstance(binding, HttpBinding):
            raise TypeError(f"{manifest.name} is no tool of an HTTP API")
        until = asyncio.get_running_loop().time() + timeout_s
        reply, granted = await self._sent(manifest, binding, arguments, until)
        if reply.status == 401 and self._credentials.refused(granted):
            reply, granted = await self._sent(manifest, binding, arguments, until)
        secrets = sorted(granted.secrets)
        type_ = reply.headers.get("Content-Type", "")
        said = {name: reply.headers[name] for name in _SAID if name in reply.headers}
        head = said if binding.method == "HEAD" else None
        host = manifest.upstream
        outcome = await self._reader.read(
            host, reply, outcome_of, host, type_, secrets, head, until=until
        )
        if isinstance(outcome, Answer):
            return outcome
        words = fit_for_message(outcome.text, secrets)
        raise _fault(manifest, reply, granted, outcome.status, words)

    async def _sent(
        self,
        manifest: Manifest,
        binding: HttpBinding,
        arguments: Mapping[str, Scalar],
        until: float,
    ) -> tuple[Reply, Granted]:
        """Send the request of a call. Raises `UpstreamFault`."""
        loop = asyncio.get_running_loop()
        provider = self._catalog.providers.get(manifest.provider or "")
        allow_private = provider is not None and provider.allow_private
        request: Request = request_of(manifest, binding, arguments)
        granted = await self._credentials.grant(
            request,
            manifest,
            binding,
            provider.credentials if provider is not None else {},
            allow_private=allow_private,
        )
        url, headers = request.sent()
        if url.origin() != URL(binding.base_url).origin():
            raise UpstreamFault("invalid", "the request would leave the host of its tool")
        fresh = manifest.intent_type == "transactional"  # their requests are never repeated
        session = await self._session(allow_private)
        reply = await send(
            session, url, headers, max(until - loop.time(), 0.0),
            fresh=fresh, method=request.method, body=request.body,
        )  # fmt: skip
        return reply, granted

    async def _session(self, allow_private: bool) -> Session:
        session = self._sessions.get(allow_private)
        if session is None:
            async with self._opening:
                if allow_private not in self._sessions:
                    opened = open_session(guarded=not allow_private)
                    self._sessions[allow_private] = await self._stack.enter_async_context(opened)
            session = self._sessions[allow_private]
        return session


def _fault(
    manifest: Manifest, reply: Reply, granted: Granted, status: int | None, words: str
) -> UpstreamFault:
    """The fault for `status`, which is the reply's own or was found in its body."""
    said = words and f": {words}"
    if status in (401, 403):
        names = " and ".join(granted.variables)
        text = f"the upstream does not accept the credential in {names}"
        if not names:
            text = f"{manifest.upstream} refuses calls without a credential"
        return UpstreamFault("not_configured", f"{text} ({status}){said}")
    if status == 429:
        return fault_of_status(429, reply.headers.get("Retry-After"), words)
    if reply.ok and (status or 0) < 500:
        return UpstreamFault("rejected", f"the upstream refused the call{said}")
    if reply.ok:
        text = f"the upstream answered {reply.status} with an error{said}"
        return UpstreamFault("status", text, retryable=True)
    if 300 <= reply.status < 400:
        text = f"the upstream answered {reply.status}, and redirects are not followed"
        return UpstreamFault("status", text)
    if reply.status == 408:
        return UpstreamFault("timeout", f"the upstream answered 408{said}", retryable=True)
    if reply.status < 500:
        return UpstreamFault("rejected", f"the upstream refused the call ({reply.status}){said}")
    return fault_of_status(reply.status, reply.headers.get("Retry-After"), words)


def outcome_of(
    reply: Reply,
    host: str,
    type_: str,
    secrets: Sequence[str],
    head: Mapping[str, str] | None,
) -> Answer | UpstreamErrorBody:
    """Read a reply. Raises `UpstreamFault` if the body of a success can't be read."""
    kind = type_.partition(";")[0].strip().lower()
    if not reply.ok:
        return UpstreamErrorBody(_words(reply, kind), reply.status)
    mask = mask_of(frozenset(secrets))
    if not reply.body and (head is not None or reply.status in (202, 204, 205)):
        return masked(from_value({"status": reply.status, **(head or {})}), mask)
    if kind == "text/csv":
        return masked(from_value(_table(read_text(reply.body, reply.charset))), mask)
    if (kind.startswith("text/") and kind not in ("text/html", "text/json")) or _is_xml(kind):
        return masked(from_value(read_text(reply.body, reply.charset)), mask)
    if kind.partition("/")[0] in ("image", "audio", "video", "font") or kind in _BINARY:
        raise UpstreamFault("invalid", f"the upstream sent {kind}, neither JSON nor text")
    value = read_json(reply.body, reply.charset, secrets)
    return error_body_in(host, value) or masked(from_value(value), mask)


_BINARY: Final = frozenset(
    ("application/octet-stream", "application/pdf", "application/zip", "application/gzip")
)


def _is_xml(kind: str) -> bool:
    return kind == "application/xml" or kind.endswith("+xml")


def _words(reply: Reply, kind: str) -> str:
    """What a refusal says, in JSON or plain text."""
    try:
        return words_in(read_json(reply.body, reply.charset))
    except UpstreamFault:
        return bytes(reply.body[:400]).decode(errors="replace") if kind == "text/plain" else ""


def _table(text: str) -> list[dict[str, str]]:
    """The records of a CSV text, whose first row names the columns. Raises `UpstreamFault`."""
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        names = next(rows, [])
        if len(set(names)) != len(names):
            raise UpstreamFault("invalid", "the upstream's CSV names a column twice")
        return [dict(zip(names, row, strict=True)) for row in rows if row]
    except (csv.Error, ValueError):
        raise UpstreamFault("invalid", "the upstream's CSV can't be read as a table") from None
