"""LangChain's MCP adapters, whose tools an agent calls as `tool_call`."""

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from program import ALL, COIN, FEW, HISTORY, ORDER, WRONG, WRONG_KEY, bearer, raised_by, run


async def visit(url: str, key: str) -> dict[str, Any]:
    tools = await tools_of(url + ALL, key)
    few = await tools_of(url + FEW, key)
    answers = [await call(tools, *COIN), await call(tools, *HISTORY), await call(few, *ORDER)]
    refused = await call(tools, *WRONG)
    return {
        "listed": list(tools),
        "called": [answer.text for answer in answers if answer.status == "success"],
        "error": refused.text if refused.status == "error" else "",
        "wrong_key": await raised_by(tools_of(url + FEW, WRONG_KEY)),
    }


async def tools_of(url: str, key: str) -> dict[str, BaseTool]:
    server = {"transport": "streamable_http", "url": url, "headers": bearer(key)}
    return {tool.name: tool for tool in await MultiServerMCPClient({"finport": server}).get_tools()}


async def call(tools: dict[str, BaseTool], name: str, arguments: dict[str, Any]) -> ToolMessage:
    order = {"type": "tool_call", "id": name, "name": name, "args": arguments}
    return await tools[name].ainvoke(order)


run(visit)
