"""The market's tools: sessions by id, each reachable for the client that opened it only.

A session belongs to one client, as the gateway names it. To all others its id is unknown. Ids are
128 random bits behind the number of the worker that holds the session, and behind the name of its
gateway if several serve together. Sessions are bounded in
number and in age; what they hold of their own is the reasons given and the memories named, which
are bounded in bytes.
"""

import asyncio
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import anyio
import orjson
from anyio import to_thread

from adapters.adapter import Adapter
from adapters.embeddings import Embedder
from adapters.fault import UpstreamFault
from adapters.market.prices import Market, digest_of, read_markets
from adapters.market.session import MOST_ASSETS, Session, course_of, misused
from adapters.market.similarity import Bm25, Embeddings
from adapters.normalise import Answer
from adapters.peers import Elsewhere, OpenElsewhere, Peers, gateway_name
from manifests import Manifest, MarketBinding, Scalar

log = logging.getLogger("finport")

REASON_BYTES = 256 * 2**20
"""How much the reasons of all sessions, and the memories named with them, may hold together. One
client's have at most half of it.
"""

EMBEDDING_S = 10.0
"""Seconds that an embedder has for a question and the memories that are new to it."""

RECALLS = 2
"""How many sessions recall at once, each in a thread."""

MOST_COST_BP = 10_000.0
"""The highest cost of a change of position, in basis points: all of it."""

SESSION_ID = re.compile(r"(?:(?P<gateway>[0-9a-f]{16})\.)?(?P<worker>[0-9]{1,4})-[0-9a-f]{32}")


class MarketAdapter(Adapter):
    """Sessions of one process. `most` is their largest number, of which one client has at most
    half; one that was not used for `idle_s` seconds ends.
    """

    def __init__(
        self,
        markets: Mapping[str, Market],
        digest: str,
        *,
        most: int,
        idle_s: float,
        worker: int = 0,
        gateway: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._gateway = gateway
        self._elsewhere: Elsewhere | None = None
        self.digest = digest
        self._markets = markets
        self._similarity = Bm25()
        self._peers: Peers | None = None
        self._embeddings = None if embedder is None else Embeddings(embedder)
        self._most = most
        self._idle_s = idle_s
        self._worker = worker
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._reason_bytes: Counter[str] = Counter()
        self._threads = anyio.CapacityLimiter(RECALLS)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        *,
        most: int,
        idle_s: float,
        worker: int = 0,
        shared: Path | None = None,
        elsewhere: OpenElsewhere | None = None,
        embedder: Embedder | None = None,
    ) -> AsyncIterator["MarketAdapter"]:
        """`worker` is the number of this process among those that share the folder `shared`, and
        `elsewhere` leads to other gateways. Raises `MarketError` if the folder's markets can't be
        read, and `OSError` if the other workers can't be listened to. With an `embedder`, memories
        are searched by embeddings.
        """
        markets = await to_thread.run_sync(read_markets, folder)
        digest = await to_thread.run_sync(digest_of, markets.values())
        market = cls(
            markets,
            digest,
            most=most,
            idle_s=idle_s,
            worker=worker,
            gateway=None if elsewhere is None else gateway_name(shared),
            embedder=embedder,
        )
        # It loads a dictionary in 0.2 s.
        await to_thread.run_sync(market._similarity, "words", ["words"])
        async with AsyncExitStack() as parts:
            if shared is not None:
                opened = Peers.open(shared, worker, market._answer, "session")
                market._peers = await parts.enter_async_context(opened)
            if elsewhere is not None:
                ways = elsewhere(f"{market._gateway}.{worker}", market._answer)
                market._elsewhere = await parts.enter_async_context(ways)
            yield market

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",
    ) -> Answer:
        """Answer one call of a session's owner. Raises `UpstreamFault`."""
        operation = cast("MarketBinding", manifest.binding).operation
        call = {**arguments, "operation": operation}
        found = SESSION_ID.fullmatch(str(arguments.get("session", "")))
        if self._elsewhere is not None and found and found["gateway"] not in (None, self._gateway):
            name = f"{found['gateway']}.{found['worker']}"
            return Answer(await self._elsewhere.ask(name, call, client, timeout_s))
        if self._peers is not None and found and int(found["worker"]) != self._worker:
            return Answer(await self._peers.ask(int(found["worker"]), call, client, timeout_s))
        return Answer(await self._answer(call, client))

    async def _answer(self, call: Mapping[str, Any], client: str) -> bytes:
        """Answer a call from the sessions of this process. Raises `UpstreamFault`."""
        arguments = {**call}
        operation = arguments.pop("operation")
        if operation == "open":
            return orjson.dumps(self._open(client, **arguments))
        name = arguments.pop("session")
        session = self._session(name, client)
        match operation:
            case "observe":
                answer = session.observe(**arguments)
            case "trade":
                answer = self._trade(session, **arguments)
            case "recall":
                answer = await self._recall(session, **arguments)
            case _:
                self._end(name)
                answer = {"closed": True, "is_over": session.is_over}
        return orjson.dumps(answer)

    async def _recall(
        self, session: Session, symbol: str, question: str, **bounds: Any
    ) -> dict[str, Any]:
        async with session.recalling:
            near = await self._similarities(session, symbol, question)
            recall = partial(session.recall, symbol, question, similarities=near, **bounds)
            return await to_thread.run_sync(recall, limiter=self._threads)

    async def _similarities(
        self, session: Session, symbol: str, question: str
    ) -> Mapping[str, float] | None:
        """Those of the embedder; None without one, or where it fails: BM25 then takes its place."""
        if self._embeddings is None:
            return None
        texts = await to_thread.run_sync(session.remembered, symbol, limiter=self._threads)
        try:
            async with asyncio.timeout(EMBEDDING_S):
                return await self._embeddings.similarities(question, texts)
        except (UpstreamFault, TimeoutError) as fault:
            log.warning("memories are searched without embeddings: %s", fault)
            return None

    def _open(
        self, client: str, symbols: str, cost_bp: float, *, hindsight: bool = False, **dates: str
    ) -> dict[str, Any]:
        course = course_of(self._chosen(symbols), **dates, hindsight=hindsight)
        if not 0 <= cost_bp <= MOST_COST_BP:
            raise misused(f"cost_bp must be from 0 to {MOST_COST_BP:g}, not {cost_bp:g}")
        self._make_room(client)
        name = f"{self._worker}-{token_hex(16)}"
        if self._gateway is not None:
            name = f"{self._gateway}.{name}"
        session = Session(course, client, self._similarity)
        self._sessions[name] = session
        self._held[client] += 1
        session.used_at = time.monotonic()
        return {"session": name, **session.about(), "cost_bp": float(cost_bp)}

    def _trade(
        self, session: Session, reason: str, memories: str, **decided: Any
    ) -> dict[str, Any]:
        """Raises `UpstreamFault`, also if there is no room for another reason."""
        used, before = self._reason_bytes, session.reason_bytes
        is_full = used[session.owner] >= REASON_BYTES // 2 or used.total() >= REASON_BYTES
        if (reason or memories) and is_full:
            text = "there is no room for further reasons and memories; trade without them"
            raise UpstreamFault("full", text)
        found = session.trade(reason=reason, memories=memories, **decided)
        used[session.owner] += session.reason_bytes - before
        return found

    def _session(self, name: str, client: str) -> Session:
        now, session = time.monotonic(), self._sessions.get(name)
        if session is None or session.owner != client or now - session.used_at > self._idle_s:
            text = "no such session: it was closed, has ended after its time, or never was yours"
            raise UpstreamFault("gone", f"{text}; market_open begins one")
        session.used_at = now
        self._sessions.move_to_end(name)
        return session

    def _make_room(self, client: str) -> None:
        """End the sessions that nobody used for long. Raises `UpstreamFault` if others fill all."""
        now = time.monotonic()
        while self._sessions:
            name, oldest = next(iter(self._sessions.items()))
            if now - oldest.used_at <= self._idle_s:
                break
            self._end(name)
        half = max(self._most // 2, 1)
        if self._held[client] >= half:
            text = f"a client has at most {half} sessions at once; close one"
            raise UpstreamFault("quota_exhausted", text)
        if len(self._sessions) >= self._most:
            text = f"there are {self._most} sessions already; one that is not used ends"
            raise UpstreamFault("full", text, retryable=True, retry_after_s=1.0)

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name)
        self._reason_bytes[session.owner] -= session.reason_bytes
        self._held[session.owner] -= 1
        if not self._held[session.owner]:
            del self._held[session.owner], self._reason_bytes[session.owner]

    def _chosen(self, symbols: str) -> list[Market]:
        names = [name.strip() for name in symbols.split(",") if name.strip()]
        if not 1 <= len(names) <= MOST_ASSETS:
            raise misused(f"a session has 1 to {MOST_ASSETS} assets, not {len(names)}")
        for place, name in enumerate(names):
            if name.upper() not in self._markets:
                known = ", ".join(sorted(self._markets)[:50])
                raise misused(f"{name[:40]!r} is no asset of this market; there are {known}")
            if name.upper() in (one.upper() for one in names[:place]):
                raise misused(f"{name.upper()} is named twice")
        return [self._markets[name.upper()] for name in names]
