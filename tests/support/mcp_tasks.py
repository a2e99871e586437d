"""MCP's tasks: an extension for the official client, and messages as they travel."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import aiohttp
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict

from gateway.api.mcp import CAPABILITIES_KEY
from gateway.api.tasks import EXTENSION
from tests.support.mcp_messages import BOTH, META, request
from tests.support.waiting import PATIENCE_S

TASKS_META = {**META, CAPABILITIES_KEY: {"extensions": {EXTENSION: {}}}}


class TaskResult(Result):
    """A task, as it is told in place of a result, or to one who asks for it."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"]


class AskedTask(Result):
    model_config = ConfigDict(extra="allow")

    result_type: Literal["complete"]


class TaskParams(RequestParams):
    model_config = ConfigDict(extra="allow")


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


async def about(session: ClientSession, method: str, **params: Any) -> dict[str, Any]:
    """The result of a request about a task, asked by the official client."""
    asked = TaskRequest(method=method, params=TaskParams.model_validate(params))
    answer = await session.send_request(asked, AskedTask)
    return answer.model_extra or {}


async def polled(session: ClientSession, id_: str) -> dict[str, Any]:
    """A task that has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while (task := await about(session, "tasks/get", taskId=id_))["status"] == "working":
            await asyncio.sleep(0.02)
    return task


class TakesTasks(ClientExtension):
    """Polls a task in place of whoever called the tool."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskResult, resolve=self._resolve)]

    async def _resolve(self, created: TaskResult, context: ClaimContext) -> CallToolResult:
        task = created.model_extra or {}
        self.seen.append(task)
        ended = await polled(context.session, task["taskId"])
        self.seen.append(ended)
        return CallToolResult.model_validate(ended["result"])


async def sent(
    url: str, method: str, head: dict[str, str] | None = None, **params: object
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the answer to a request of revision 2026-07-28, over a new connection."""
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Accept": BOTH}
    name = params.get("name", params.get("taskId"))
    if isinstance(name, str):
        headers["Mcp-Name"] = name
    message = request(method, {"_meta": TASKS_META, **params})
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}/mcp", json=message, headers={**headers, **(head or {})}) as got,
    ):
        return got.status, await got.json()


async def begun(url: str, uuid: str, head: dict[str, str] | None = None) -> dict[str, Any]:
    """The task that a call becomes."""
    coin = {"name": "get_coin", "arguments": {"uuid": uuid}}
    _, answer = await sent(url, "tools/call", head, name="call_tool", arguments=coin)
    task: dict[str, Any] = answer["result"]
    assert task["resultType"] == "task", answer
    return task
