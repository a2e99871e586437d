"""An agent that calls tools until it answers. It plays in the process of the environment, so that
hundreds of rollouts need no process each.
"""

import asyncio
import json
import os
from typing import Any

import aiohttp
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

from finport_tasks.tools import ToolServers

ATTEMPTS = 3
"""How often a request to the model is made that met a fault of its endpoint."""

MODEL_S = 3600.0
"""How long a request to the model may take; the agent's own timeout is usually shorter."""

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
        trace: vf.Trace,  # noqa: ARG002
        runtime: vf.Runtime,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Raises `ToolsetError` where the tools can't be reached."""
        system, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = []
        if system:
            messages.append({"role": "system", "content": system})
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        key = os.environ.get(getattr(data, "key_variable", None) or "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        model = {"Authorization": f"Bearer {secret}"}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=MODEL_S)) as session:
            tools = ToolServers(session, mcp_urls, headers, self.config.tool_timeout)
            asked: dict[str, Any] = {"model": ctx.model, "messages": messages}
            if schemas := await tools.schemas():
                asked["tools"] = schemas
            while True:
                said = await _said(session, f"{endpoint}/chat/completions", model, asked)
                messages.append(said)
                if not said.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in said["tool_calls"]:
                    function = call["function"]
                    content = await tools.call(function["name"], function.get("arguments"))
                    reply = {"role": "tool", "tool_call_id": call["id"], "content": content}
                    messages.append(reply)


async def _said(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str], asked: dict[str, Any]
) -> dict[str, Any]:
    """The model's next message. Raises `RuntimeError` and `ClientError`."""
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        try:
            async with session.post(url, json=asked, headers=headers) as response:
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
