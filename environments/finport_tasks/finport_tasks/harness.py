"""An agent that calls tools until it answers. It plays in the process of the environment, so that
hundreds of rollouts need no process each.
"""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import connect_mcp, mcp_content_to_chat_content

ATTEMPTS = 3
"""How often a request to the model is made that met a fault of its endpoint."""

TRANSIENT = (408, 409, 429)


class FinportHarnessConfig(vf.HarnessConfig):
    """The agent has no knobs of its own."""


class FinportHarness(vf.Harness[FinportHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Raises `ToolsetError` where the tools can't be reached."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        key = os.environ.get(getattr(data, "key_variable", None) or "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        servers = {
            name: {"url": url, "headers": headers, "timeout": self.config.tool_timeout}
            for name, url in mcp_urls.items()
        }
        async with AsyncExitStack() as stack:
            try:
                tools, places, connections = await connect_mcp({"mcpServers": servers}, stack)
            except Exception as error:
                raise vf.ToolsetError(f"the tools can't be listed: {_words(error)}") from error
            session = await stack.enter_async_context(
                aiohttp.ClientSession(
                    headers={"Authorization": f"Bearer {secret}"},
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),
                )
            )
            asked: dict[str, Any] = {"model": ctx.model, "messages": messages}
            if tools:
                asked["tools"] = tools
            while True:
                said = await _said(session, f"{endpoint}/chat/completions", asked)
                messages.append(said)
                if not said.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in said["tool_calls"]:
                    content = await _called(call["function"], places, connections)
                    reply = {"role": "tool", "tool_call_id": call["id"], "content": content}
                    messages.append(reply)


async def _said(session: aiohttp.ClientSession, url: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The model's next message. Raises `RuntimeError` and `ClientError`."""
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        try:
            async with session.post(url, json=asked) as response:
                text = await response.text()
                if response.status < 400:
                    message: dict[str, Any] = json.loads(text)["choices"][0]["message"]
                    return {name: value for name, value in message.items() if value is not None}
                if last or (response.status < 500 and response.status not in TRANSIENT):
                    raise RuntimeError(f"the model's endpoint: {response.status}: {text[:500]}")
        except aiohttp.ClientConnectionError:
            if last:
                raise
        await asyncio.sleep(2**attempt / 2)
    raise AssertionError


async def _called(
    function: dict[str, Any], places: dict[str, tuple[str, str]], connections: dict[str, Any]
) -> Any:
    """What a call answered, or what is wrong with it. Raises `ToolsetError`."""
    name = function["name"]
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except json.JSONDecodeError as error:
        return f"error: the arguments are no JSON: {error}"
    if not isinstance(arguments, dict):
        return f"error: the arguments are a JSON object, not {type(arguments).__name__}"
    if name not in places:
        return f"error: there is no tool {name!r}"
    server, tool = places[name]
    try:
        result = await connections[server].run(lambda client: client.call_tool(tool, arguments))
    except Exception as error:
        raise vf.ToolsetError(f"{name} can't be called: {_words(error)}") from error
    return mcp_content_to_chat_content(result.content)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
