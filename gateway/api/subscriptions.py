"""Streams of changes: `subscriptions/listen` of MCP's stateless revisions.

A stream tells its client that the list of tools which it sees has changed: with the catalogue, or
with the client's own grant. It also tells of the tasks of this process that the client names. A
client that reads slowly costs no memory, because a stream holds one flag and no queue: several
changes become one notification. Streams are bounded in number, in all and for one client.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.access.rejection import RequestRejected
from gateway.api.mcp_errors import INVALID_PARAMS, McpError, refused
from gateway.api.mcp_tools import McpTools, Visitor
from gateway.api.tasks import Task, Tasks, check_takes_tasks
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from manifests import Catalog

LISTEN = "subscriptions/listen"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"

KEEP_ALIVE_S = 15.0
"""Seconds after which a silent stream shows that it is alive. So often it also looks at the key and
the grant of its client.
"""

MOST, MOST_OF_ONE = 1_000, 100
"""Streams of a process, in all and of one client."""

AT_ONCE = 16
"""Streams that are woken in one turn of the event loop."""

MOST_TASKS = 64
"""Tasks that one stream may name."""

LIST_CHANGED = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
"""The notification of revisions with a handshake."""


LOOKS = 5
"""How often a list is read anew because it changed while it was read."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a client wants to be told of."""

    tools: bool
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A list of tools by its hash, and what it was made of."""

    version: int
    grant: Grant | None
    tools: object


class Subscriptions:
    """The streams of one process."""

    def __init__(self, catalog: Catalog, tools: McpTools, tasks: Tasks) -> None:
        self._catalog = catalog
        self._tools = tools
        self._tasks = tasks
        self._held: Counter[str] = Counter()
        self._wakes: set[asyncio.Event] = set()
        self._of_tools: dict[asyncio.Event, None] = {}
        """Those of streams that tell of tools, of which the first are woken first."""
        self._waking: asyncio.Task[None] | None = None
        self._is_over = False

    def __len__(self) -> int:
        return len(self._wakes)

    def end(self) -> None:
        """End all streams, and those that begin from now on."""
        self._is_over = True
        for wake in self._wakes:
            wake.set()

    async def listen(
        self,
        id_: bytes,
        params: Mapping[str, Any],
        capabilities: object,
        visitor: Visitor,
        holder: str,
        end: bytes,
    ) -> AsyncGenerator[bytes | None]:
        """Yield the messages of a stream: the acknowledgment, notifications, and at its end the
        response. None keeps the stream alive.

        `id_` is the request's, as JSON, and `holder` whose stream it is. The response has `end` in
        its `_meta`. Raises `McpError` and `RequestRejected` before the first message.
        """
        wanted = _wanted(params, capabilities)
        self._check_room(holder)
        meta = b'"_meta":{"%b":%b' % (SUBSCRIPTION_KEY.encode(), id_)
        wake, owner = asyncio.Event(), visitor.caller.context.client
        found = (self._tasks.held(one, owner) for one in wanted.tasks)
        followed: dict[str, tuple[Task, str]] = {task.id: (task, "") for task in found if task}
        self._held[holder] += 1
        self._wakes.add(wake)
        if wanted.tools:
            self._follow(wake)
        for task, _ in followed.values():
            task.watchers.add(wake.set)
        try:
            seen = await self._look(visitor) if wanted.tools else None
            agreed: dict[str, object] = {"toolsListChanged": True} if wanted.tools else {}
            agreed |= {"taskIds": [*followed]} if followed else {}
            about = b'%b},"notifications":%b' % (meta, orjson.dumps(agreed))
            yield _notification(b"notifications/subscriptions/acknowledged", about)
            while True:
                for id_of_task, (task, told) in [*followed.items()]:
                    if task.status != told and (told or task.working is None):
                        text = b"%b}" % meta + b"," + task.members
                        yield _notification(b"notifications/tasks", text)
                    followed[id_of_task] = task, task.status
                    if task.working is None:
                        task.watchers.discard(wake.set)
                        del followed[id_of_task]
                if self._is_over:
                    break
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await wake.wait()
                except TimeoutError:
                    yield None
                wake.clear()
                if visitor.caller.client is not None:
                    visitor.caller.client.check_known()
                if seen is not None:
                    before, seen = seen, await self._look(visitor, seen)
                    if seen.tools != before.tools:
                        yield _notification(b"notifications/tools/list_changed", b"%b}" % meta)
            yield b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete",%b,%b}}}' % (
                id_,
                meta,
                end,
            )
        except RequestRejected as refusal:  # the key was revoked
            yield refused(id_, refusal.error)
        finally:
            self._unfollow(wake)
            for task, _ in followed.values():
                task.watchers.discard(wake.set)
            self._wakes.discard(wake)
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]

    async def changes(self, visitor: Visitor) -> AsyncGenerator[None]:
        """Yield whenever the list of tools that a visitor sees has changed, until the end."""
        wake = asyncio.Event()
        self._wakes.add(wake)
        self._follow(wake)
        try:
            seen = await self._look(visitor)
            while not self._is_over:
                await wake.wait()
                wake.clear()
                before, seen = seen, await self._look(visitor, seen)
                if seen.tools != before.tools:
                    yield
        finally:
            self._unfollow(wake)
            self._wakes.discard(wake)

    def _follow(self, wake: asyncio.Event) -> None:
        """Wake a stream when the catalogue has changed."""
        self._of_tools[wake] = None
        self._catalog.listeners.add(self._changed)

    def _unfollow(self, wake: asyncio.Event) -> None:
        self._of_tools.pop(wake, None)
        if not self._of_tools:
            self._catalog.listeners.discard(self._changed)

    def _changed(self) -> None:
        if self._waking is not None:
            self._waking.cancel()  # all are woken again
        self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def _wake(self) -> None:
        """Wake the streams, few at a time, so that other work goes on."""
        for number, wake in enumerate([*self._of_tools], 1):
            wake.set()
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _look(self, visitor: Visitor, before: _Seen | None = None) -> _Seen:
        """The list that a visitor sees now."""
        client = visitor.caller.client
        grant = visitor.caller.context.grant if client is None else client.grant
        for _ in range(LOOKS):
            version = self._catalog.version
            if before is not None and (before.version, before.grant) == (version, grant):
                return before
            tools = hash(await self._tools.tools(visitor, grant))
            if version == self._catalog.version:
                return _Seen(version, grant, tools)
            if before is None:
                break  # it changed after the client had begun to listen, and is to be told so
        return _Seen(-1, grant, object())

    def _check_room(self, holder: str) -> None:
        """Raises `RequestRejected` if there are too many streams."""
        if self._held[holder] >= MOST_OF_ONE:
            text = f"this client's {MOST_OF_ONE} streams are all open; close one"
            raise RequestRejected(CallError(ErrorCode.RATE_LIMITED, text, 1.0))
        if len(self._wakes) >= MOST:
            text = f"{MOST} streams are open already"
            raise RequestRejected(CallError(ErrorCode.OVERLOADED, text, 1.0))


def _wanted(params: Mapping[str, Any], capabilities: object) -> _Wanted:
    """Read the filter of a stream. Raises `McpError`."""
    asked = params.get("notifications")
    if not isinstance(asked, dict):
        raise McpError(INVALID_PARAMS, f"{LISTEN} takes notifications, an object")
    tools, tasks = asked.get("toolsListChanged", False), asked.get("taskIds", [])
    if not isinstance(tools, bool):
        raise McpError(INVALID_PARAMS, "toolsListChanged is true or false")
    if not isinstance(tasks, list) or not all(isinstance(one, str) for one in tasks):
        raise McpError(INVALID_PARAMS, "taskIds is a list of texts")
    if len(tasks) > MOST_TASKS:
        raise McpError(INVALID_PARAMS, f"a stream names at most {MOST_TASKS} tasks")
    if tasks:
        check_takes_tasks(capabilities)
    return _Wanted(tools, tuple(tasks))


def _notification(method: bytes, params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"%b","params":{%b}}' % (method, params)
