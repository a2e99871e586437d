"""Calls about sessions and tasks that another gateway holds, passed on through Redis.

Every process has an inbox, a list in Redis. A call goes into the inbox of the process that holds
the session or task, and the answer into that of the process that asked. An inbox is bounded, and
ends with its process.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import anyio
import orjson

from adapters.fault import UpstreamFault
from adapters.peers import Answer, Elsewhere
from gateway.sharing.connection import Execute, connected
from gateway.sharing.store import SharedStore, StoreError

log = logging.getLogger("finport")

MOST_MESSAGES = 1_000
MESSAGE_BYTES = 4 * 2**20
ANSWER_BYTES = 3 * 2**20 - 1_024
"""The longest answer: in a message it is a third longer."""

AT_ONCE = 64
WAIT_S = 0.5
ALIVE_MS = 4_000
"""How long a process that reads its inbox no more counts as living. A caller learns of its end
`WAIT_S` later.
"""


class Inbox:
    """This process among those that pass calls on. Made by `Inbox.open`."""

    def __init__(
        self, store: SharedStore, execute: Execute, name: str, answer: Answer, what: str = "session"
    ):
        self._store = store
        self._execute = execute
        self._name = name
        self._answer = answer
        self._what = what
        self._numbers = count(1)
        self._awaited: dict[int, asyncio.Future[bytes]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._closing = False
        self._sure_from = 0.0  # the loop's time from which a process without a sign of life is dead

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: SharedStore, url: str, name: str, answer: Answer, what: str = "session"
    ) -> AsyncIterator[Elsewhere]:
        """`answer` answers the calls of others about `what` while the context is open."""
        async with connected(url) as execute:
            inbox = cls(store, execute, name, answer, what)
            await inbox._show_life()
            reading = asyncio.create_task(inbox._read_often())
            try:
                yield inbox
            finally:
                inbox._closing = True
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([reading])
                    for task in inbox._answering:
                        task.cancel()
                    if inbox._answering:
                        await asyncio.wait(inbox._answering)
                    with suppress(StoreError):
                        await store.ask("DEL", inbox._alive(name))

    async def ask(self, name: str, call: Mapping[str, Any], client: str, timeout_s: float) -> bytes:
        """The answer of the process `name`. Raises `UpstreamFault`, also where there is none."""
        number, loop = next(self._numbers), asyncio.get_running_loop()
        awaited: asyncio.Future[bytes] = loop.create_future()
        self._awaited[number] = awaited
        message = {"from": self._name, "number": number, "call": dict(call), "client": client}
        try:
            async with asyncio.timeout(timeout_s):
                await self._post(name, orjson.dumps(message))
                while not (await asyncio.wait([awaited], timeout=WAIT_S))[0]:
                    if not await self._store.ask("EXISTS", self._alive(name)):
                        raise self._dead()
                return awaited.result()
        except TimeoutError:
            text = f"the gateway that holds this {self._what} did not answer in {timeout_s:.3g} s"
            raise UpstreamFault("timeout", text) from None
        except StoreError:
            text = f"Redis, by which the gateway that holds this {self._what} is reached, is away"
            raise UpstreamFault("unreachable", text) from None
        finally:
            del self._awaited[number]

    async def _post(self, name: str, message: bytes) -> None:
        """Raises `UpstreamFault` and `StoreError`."""
        if len(message) > MESSAGE_BYTES:
            raise UpstreamFault("too_large", f"a call has at most {MESSAGE_BYTES} bytes")
        keys = [self._inbox(name), self._alive(name)]
        said = await self._store.run("post", keys, [message, MOST_MESSAGES, 60_000], lane="writes")
        if said == 0:
            raise self._dead()
        if said < 0:
            text = f"the gateway that holds this {self._what} has too much to do"
            raise UpstreamFault("full", text)

    def _dead(self) -> UpstreamFault:
        """What it means that a process shows no life; in Redis no sign of it lasts for long."""
        if asyncio.get_running_loop().time() < self._sure_from:
            text = f"nothing was heard of the gateway with this {self._what} since Redis was away"
            return UpstreamFault("unreachable", text, retry_after_s=ALIVE_MS / 1e3)
        return UpstreamFault("gone", f"the gateway that held this {self._what} has ended")

    async def _read_often(self) -> None:
        while not self._closing:
            try:
                read = ("BLMPOP", WAIT_S, 1, self._inbox(self._name), "LEFT", "COUNT", AT_ONCE)
                (said,) = await self._execute([read])
                if isinstance(said, Exception):
                    raise said
                for message in said[1] if said else ():
                    self._take(message)
                await self._show_life()
            except Exception as error:  # noqa: BLE001 - whatever the library raises
                log.debug("the inbox can't be read: %s", error)
                self._sure_from = asyncio.get_running_loop().time() + ALIVE_MS / 1e3
                await asyncio.sleep(WAIT_S)

    def _take(self, text: bytes) -> None:
        message = orjson.loads(text)
        if "call" in message:
            task = asyncio.create_task(self._answer_one(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        awaited = self._awaited.get(message["number"])
        if awaited is None or awaited.done():
            return
        if message["fault"] is not None:
            awaited.set_exception(UpstreamFault(**message["fault"]))
        else:
            awaited.set_result(base64.b64decode(message["answer"]))

    async def _answer_one(self, message: dict[str, Any]) -> None:
        fault, answer = None, b""
        try:
            answer = await self._answer(message["call"], message["client"])
        except UpstreamFault as error:
            fault = error.arguments
        except Exception:
            log.exception("a call of another gateway failed")
            text = f"the gateway that holds this {self._what} failed"
            fault = {"kind": "crashed", "message": text}
        if len(answer) > ANSWER_BYTES:
            text = f"an answer of {len(answer)} bytes does not pass between gateways"
            fault, answer = {"kind": "too_large", "message": text}, b""
        said = {
            "number": message["number"],
            "fault": fault,
            "answer": base64.b64encode(answer).decode(),
        }
        with suppress(StoreError, UpstreamFault):  # whoever asked is gone, or will give up
            await self._post(message["from"], orjson.dumps(said))

    async def _show_life(self) -> None:
        with suppress(StoreError):
            await self._store.ask("SET", self._alive(self._name), 1, "PX", ALIVE_MS)

    def _inbox(self, name: str) -> str:
        return self._store.key("inbox", tag=f"inbox:{name}")

    def _alive(self, name: str) -> str:
        return self._store.key("alive", tag=f"inbox:{name}")
