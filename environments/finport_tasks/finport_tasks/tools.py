"""Tools of MCP servers, for hundreds of rollouts in one process.

A request stands alone: there is no session that could drop when many rollouts start together, and
one that fails is made again. So a gateway that restarts costs a rollout some seconds.
"""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import aiohttp
import verifiers.v1 as vf

from bench.agents import ToolCall
from bench.runs.episode import refused
from gateway import ErrorCode

ATTEMPTS = 6
"""How often a request is made; all its waits take some 15 s."""

FIRST_WAIT_S = 0.5

TRANSIENT = (408, 425, 429)
INTERNAL_ERROR = -32603

HEADERS: Mapping[str, str] = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}


class Unreachable(Exception):
    """A server did not answer; the text says how."""


class ToolServers:
    """The tools of all servers of a rollout, each by the name that the model calls it."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        urls: Mapping[str, str],
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self._session = session
        self._urls = urls
        self._headers = {**HEADERS, **headers}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=10.0)
        self._places: dict[str, tuple[str, str]] = {}
        self._number = count(1)

    async def schemas(self) -> list[dict[str, Any]]:
        """The tools as functions of Chat Completions. Raises `ToolsetError`."""
        found = []
        for server, url in self._urls.items():
            cursor: dict[str, Any] = {}
            while True:
                page = (await self._asked(url, "tools/list", cursor))["result"]
                for tool in page["tools"]:
                    name = f"{server}_{tool['name']}" if server else tool["name"]
                    self._places[name] = (url, tool["name"])
                    function = {
                        "name": name,
                        "description": tool.get("description") or "",
                        "parameters": tool["inputSchema"],
                    }
                    found.append({"type": "function", "function": function})
                if not page.get("nextCursor"):
                    break
                cursor = {"cursor": page["nextCursor"]}
        return found

    async def call(self, name: str, arguments: str | None) -> str:
        """What a call answered, or what is wrong with it. Raises `ToolsetError`."""
        try:
            given = json.loads(arguments or "{}")
        except json.JSONDecodeError as error:
            return _refusal(name, f"the arguments are no JSON: {error}")
        if not isinstance(given, dict):
            return _refusal(name, f"the arguments are a JSON object, not {type(given).__name__}")
        if name not in self._places:
            return _refusal(name, "there is no such tool", ErrorCode.UNKNOWN_TOOL)
        url, tool = self._places[name]
        answer = await self._asked(url, "tools/call", {"name": tool, "arguments": given})
        if (error := answer.get("error")) is not None:
            return _refusal(name, str(error.get("message")))
        return "\n".join(part.get("text") or "" for part in answer["result"]["content"])

    async def _asked(self, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises `ToolsetError` after the last attempt."""
        asked = {"jsonrpc": "2.0", "id": next(self._number), "method": method, "params": params}
        for attempt in range(ATTEMPTS):
            try:
                return await self._once(url, asked)
            except Unreachable as error:
                if attempt == ATTEMPTS - 1:
                    raise vf.ToolsetError(f"outage: {method}: {error}") from error
            wait = FIRST_WAIT_S * 2**attempt
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        raise AssertionError

    async def _once(self, url: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Raises `Unreachable`, and `ToolsetError` for a refusal that no attempt changes."""
        try:
            async with self._session.post(
                url, json=asked, headers=self._headers, timeout=self._timeout
            ) as response:
                text, status = await response.text(), response.status
                kind = response.content_type
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        if status >= 500 or status in TRANSIENT:
            raise Unreachable(f"HTTP {status}: {text[:300]}")
        try:
            answers = [*_events(text)] if kind == "text/event-stream" else [json.loads(text)]
            answer: dict[str, Any] = next(one for one in answers if one.get("id") == asked["id"])
        except (ValueError, AttributeError, StopIteration) as error:
            if status >= 400:
                raise vf.ToolsetError(
                    f"the gateway refuses: HTTP {status}: {text[:300]}"
                ) from error
            raise Unreachable(f"no answer of MCP: {text[:300]}") from error
        if (answer.get("error") or {}).get("code") == INTERNAL_ERROR:
            raise Unreachable(str(answer["error"].get("message")))
        if asked["method"] != "tools/call" and "error" in answer:
            raise vf.ToolsetError(f"the tools can't be listed: {answer['error']}")
        return answer


def _refusal(tool: str, text: str, code: ErrorCode = ErrorCode.INVALID_ARGUMENTS) -> str:
    """What a gateway would have answered to a call that it can't be asked."""
    return refused(code, text, ToolCall(tool, {})).to_json().decode()


def _events(text: str) -> Iterator[Any]:
    """The messages of a stream of events."""
    for line in text.splitlines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))
