"""Calls that last, as tasks of MCP's extension: a client polls them, and can cancel them.

A task lives in the process where its call began, and its id names that process. Another worker, or
another gateway behind the same Redis, passes a request about it on to there. A task belongs to one
client: to all others its id is unknown. Ids hold 128 random bits, so they protect the tasks of
callers without a key. Tasks are bounded in number, in the bytes of their results and in age; a call
for which there is no room is answered on its connection.
"""

import asyncio
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from typing import Any, Literal

import orjson

from adapters.fault import UpstreamFault
from adapters.peers import Elsewhere, Peers, gateway_name
from gateway.access.rejection import RequestRejected
from gateway.api.mcp_errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    REFUSED,
    McpError,
)
from gateway.call import Gateway
from gateway.errors import CallError, ErrorCode
from gateway.sharing.sessions import Inbox

log = logging.getLogger("finport")

EXTENSION = "io.modelcontextprotocol/tasks"

TASK_S = 2.0
"""Seconds after which a call becomes a task, if its client takes tasks."""

POLL_MS = 1_000
"""How often a client should poll."""

KEPT_S = 600.0
"""Seconds for which a task is kept beyond the longest time that its call may take."""

MOST = 10_000
"""Tasks of a gateway, of which one client has at most half."""

MOST_BYTES = 64 * 2**20
"""Bytes of the results of all tasks, of which one client has at most half."""

ASK_S = 10.0
"""Seconds that another process has to answer a request about a task."""

TASK_ID = re.compile(r"(?:(?P<gateway>[0-9a-f]{16})\.)?(?P<worker>[0-9]{1,4})-[0-9a-f]{32}")

_UNKNOWN = "Task not found: it has expired, was lost with its process, or never was this caller's"

Status = Literal["working", "completed", "failed", "cancelled"]


def takes_tasks(capabilities: object) -> bool:
    """Whether a client with these capabilities takes a task in place of a result."""
    match capabilities:
        case {"extensions": {"io.modelcontextprotocol/tasks": dict()}}:
            return True
    return False


def check_takes_tasks(capabilities: object) -> None:
    """Raises `McpError` for a client that did not declare the extension."""
    if not takes_tasks(capabilities):
        text = f"params._meta does not declare the extension {EXTENSION}"
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise McpError(MISSING_CAPABILITY, text, needed)


@dataclass(eq=False, slots=True)
class Task:
    """One call that lasts. `due` is the clock's reading from which it has expired; `outcome` has
    the result or the error, as members of a JSON object.
    """

    id: str
    owner: str
    tool: str
    created_at: float
    due: float
    ttl_ms: int
    working: "asyncio.Future[bytes] | None"
    updated_at: float = 0.0
    status: Status = "working"
    outcome: bytes = b""
    watchers: set[Callable[[], None]] = field(default_factory=set)
    """Are called when the status has changed."""

    @property
    def members(self) -> bytes:
        """What is told of it, as members of a JSON object."""
        told = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _iso(self.created_at),
            "lastUpdatedAt": _iso(self.updated_at),
            "ttlMs": self.ttl_ms,
            "pollIntervalMs": POLL_MS,
        }
        return orjson.dumps(told)[1:-1] + self.outcome


class Tasks:
    """The tasks of one process. `gateway_id` names its gateway if others can pass requests on to
    it.
    """

    def __init__(self, gateway: Gateway, gateway_id: str | None = None) -> None:
        settings = gateway.settings
        self._clock = gateway.answers.clock
        self._ttl_s = settings.deadline_s + KEPT_S
        self._gateway_id = gateway_id
        self._worker = settings.worker
        self._most = max(MOST // settings.sharing, 2)
        self._most_bytes = MOST_BYTES // settings.sharing
        self._peers: Peers | None = None
        self._elsewhere: Elsewhere | None = None
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._bytes_in_all = 0
        self._is_ending = False

    @classmethod
    @asynccontextmanager
    async def open(cls, gateway: Gateway) -> AsyncIterator["Tasks"]:
        """The tasks of a process that serves with others. Raises `OSError` if it can't listen to
        them.
        """
        settings, store = gateway.settings, gateway.answers.store
        shared, worker = settings.shared_folder, settings.worker
        tasks = cls(gateway, None if store is None else gateway_name(shared))
        async with AsyncExitStack() as parts:
            if shared is not None:
                opened = Peers.open(shared, worker, tasks._answer, "task")
                tasks._peers = await parts.enter_async_context(opened)
            if store is not None and settings.redis_url is not None:
                url, name = settings.redis_url.get_secret_value(), tasks._name(worker)
                inbox = Inbox.open(store, url, name, tasks._answer, "task")
                tasks._elsewhere = await parts.enter_async_context(inbox)
            try:
                yield tasks
            finally:
                tasks.end()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, call: "asyncio.Future[bytes]", owner: str, tool: str) -> Task | None:
        """Make a call that is under way a task. None if there is no room for one."""
        now = self._clock.passed()
        self._forget_old(now)
        if (
            self._is_ending
            or len(self._tasks) >= self._most
            or self._held[owner] >= self._most // 2
            or self._lacks_room(owner, 1)
        ):
            return None
        prefix = "" if self._gateway_id is None else f"{self._gateway_id}."
        id_ = f"{prefix}{self._worker}-{token_hex(16)}"
        made_at, due = self._clock.wall(), now + self._ttl_s
        task = Task(id_, owner, tool, made_at, due, round(self._ttl_s * 1e3), call, made_at)
        self._tasks[id_] = task
        self._held[owner] += 1
        call.add_done_callback(partial(self._done, task))
        return task

    async def handle(self, method: str, params: Mapping[str, Any], owner: str) -> bytes:
        """Return the result of a request about a task, a JSON object.

        Raises `McpError`, and `RequestRejected` if the process that holds it can't be asked.
        """
        operation, id_ = method.removeprefix("tasks/"), params.get("taskId")
        if not isinstance(id_, str):
            raise McpError(INVALID_PARAMS, f"{method} takes a taskId, which is a text")
        if operation == "update" and not isinstance(params.get("inputResponses"), dict):
            text = "tasks/update takes inputResponses, an object of responses by their key"
            raise McpError(INVALID_PARAMS, text)
        call = {"operation": operation, "task": id_}
        try:
            found = TASK_ID.fullmatch(id_)
            if found is None:
                raise UpstreamFault("gone", _UNKNOWN)
            is_ours = found["gateway"] == self._gateway_id
            if self._elsewhere is not None and found["gateway"] is not None and not is_ours:
                name = self._name(int(found["worker"]), found["gateway"])
                return await self._elsewhere.ask(name, call, owner, ASK_S)
            if self._peers is not None and is_ours and int(found["worker"]) != self._worker:
                return await self._peers.ask(int(found["worker"]), call, owner, ASK_S)
            return await self._answer(call, owner)
        except UpstreamFault as fault:
            if fault.kind == "gone":
                raise McpError(INVALID_PARAMS, _UNKNOWN) from None
            is_long = fault.kind == "too_large"
            code = ErrorCode.TOO_LARGE if is_long else ErrorCode.OVERLOADED
            error = CallError(code, fault.message, None if is_long else 1.0)
            raise RequestRejected(error) from None

    def held(self, id_: str, owner: str) -> Task | None:
        """A task of this process that belongs to `owner`."""
        self._forget_old(self._clock.passed())
        task = self._tasks.get(id_)
        return task if task is not None and task.owner == owner else None

    def give_notice(self) -> None:
        """Make no more tasks: their clients could not ask for them."""
        self._is_ending = True

    def end(self) -> None:
        """End the tasks under way with a result that says why."""
        self._is_ending = True
        text = "the gateway is shutting down; call again"
        error = CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0)
        for task in self._tasks.values():
            if task.working is not None:
                said = orjson.dumps({"ok": False, "tool": task.tool, "error": error.to_dict()})
                content = [{"type": "text", "text": said.decode()}]
                result = {"content": content, "isError": True, "resultType": "complete"}
                self._stop(task, "completed", b',"result":%b' % orjson.dumps(result))

    async def _answer(self, call: Mapping[str, Any], client: str) -> bytes:
        """Answer a request about a task of this process. Raises `UpstreamFault`."""
        task = self.held(str(call.get("task")), client)
        if task is None:
            raise UpstreamFault("gone", _UNKNOWN)
        match call.get("operation"):
            case "get":
                return b"{%b}" % task.members
            case "cancel" if task.working is not None:
                self._stop(task, "cancelled")
        return b"{}"  # no task asks for input, so responses to that are ignored

    def _done(self, task: Task, call: "asyncio.Future[bytes]") -> None:
        """Keep the outcome of a call, unless its task was ended before."""
        error = None if call.cancelled() else call.exception()
        if task.working is None:
            return
        if call.cancelled():
            self._turn(task, "cancelled")
        elif isinstance(error, McpError):
            self._turn(task, "failed", _error(error))
        elif error is not None:
            log.error("a task's call failed inside the gateway", exc_info=error)
            text = "the gateway failed; its log has the details"
            self._turn(task, "failed", _error(McpError(INTERNAL_ERROR, text)))
        else:
            result = call.result()
            if self._lacks_room(task.owner, len(result)):
                text = f"no room is left for this result of {len(result)} bytes; call again later"
                why = CallError(ErrorCode.OVERLOADED, text, retry_after_s=1.0)
                self._turn(task, "failed", _error(McpError(REFUSED, text, why.to_dict())))
            else:
                self._turn(task, "completed", b',"result":%b' % result)

    def _stop(self, task: Task, status: Status, outcome: bytes = b"") -> None:
        """End a task whose call is under way."""
        working = task.working
        self._turn(task, status, outcome)
        if working is not None:
            working.cancel()

    def _turn(self, task: Task, status: Status, outcome: bytes = b"") -> None:
        """Let a task that is under way have ended so."""
        task.working, task.status, task.outcome = None, status, outcome
        task.updated_at = self._clock.wall()
        if task.id in self._tasks:
            self._bytes[task.owner] += len(outcome)
            self._bytes_in_all += len(outcome)
        for watcher in [*task.watchers]:
            watcher()

    def _lacks_room(self, owner: str, size: int) -> bool:
        most = self._most_bytes
        return self._bytes_in_all + size > most or self._bytes[owner] + size > most // 2

    def _forget_old(self, now: float) -> None:
        """Forget the tasks that have expired. All live equally long, so the oldest are first."""
        while self._tasks:
            id_, oldest = next(iter(self._tasks.items()))
            if now < oldest.due:
                return
            if oldest.working is not None:
                self._stop(oldest, "cancelled")
            del self._tasks[id_]
            self._bytes_in_all -= len(oldest.outcome)
            self._bytes[oldest.owner] -= len(oldest.outcome)
            self._held[oldest.owner] -= 1
            if not self._held[oldest.owner]:
                del self._held[oldest.owner], self._bytes[oldest.owner]

    def _name(self, worker: int, gateway_id: str | None = None) -> str:
        """The name of a process among those that pass requests on through Redis."""
        return f"tasks.{gateway_id or self._gateway_id}.{worker}"


def _iso(time: float) -> str:
    text = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _error(error: McpError) -> bytes:
    said = orjson.dumps(error.to_dict())
    return b',"statusMessage":%b,"error":%b' % (orjson.dumps(str(error)), said)
