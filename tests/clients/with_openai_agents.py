"""The OpenAI Agents SDK: the function tools that it makes of a server's for its models."""

import json
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper
from agents.mcp import MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext
from program import ALL, COIN, FEW, HISTORY, ORDER, WRONG, WRONG_KEY, bearer, raised_by, run


async def visit(url: str, key: str) -> dict[str, Any]:
    async with server(url + ALL, key) as finport:
        tools = await tools_of(finport)
        called = [await call(tools, *COIN), await call(tools, *HISTORY)]
        error = await call(tools, *WRONG)
    async with server(url + FEW, key) as finport:
        called.append(await call(await tools_of(finport), *ORDER))
    return {
        "listed": list(tools),
        "called": called,
        "error": error,
        "wrong_key": await raised_by(server(url + FEW, WRONG_KEY).connect()),
    }


def server(url: str, key: str) -> MCPServerStreamableHttp:
    return MCPServerStreamableHttp({"url": url, "headers": bearer(key)}, name="finport")


async def tools_of(server: MCPServerStreamableHttp) -> dict[str, FunctionTool]:
    agent = Agent(name="analyst")
    found = await MCPUtil.get_function_tools(server, True, RunContextWrapper(None), agent)
    return {tool.name: tool for tool in found if isinstance(tool, FunctionTool)}


async def call(tools: dict[str, FunctionTool], name: str, arguments: dict[str, Any]) -> str:
    """What the model is given back."""
    given = json.dumps(arguments)
    context = ToolContext(None, tool_name=name, tool_call_id=name, tool_arguments=given)
    output = await tools[name].on_invoke_tool(context, given)
    return output["text"] if isinstance(output, dict) else output


run(visit)
