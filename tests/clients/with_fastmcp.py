"""FastMCP's client."""

from typing import Any

from fastmcp.client import Client
from fastmcp.exceptions import ToolError
from program import ALL, COIN, FEW, HISTORY, ORDER, WRONG, WRONG_KEY, raised_by, run


async def visit(url: str, key: str) -> dict[str, Any]:
    async with Client(url + ALL, auth=key) as client:
        listed = [tool.name for tool in await client.list_tools()]
        called = [(await client.call_tool(*call)).content[0].text for call in (COIN, HISTORY)]
        try:
            error = (await client.call_tool(*WRONG)).content[0].text
        except ToolError as refused:
            error = str(refused)
    async with Client(url + FEW, auth=key) as client:
        called.append((await client.call_tool(*ORDER)).content[0].text)
    return {
        "listed": listed,
        "called": called,
        "error": error,
        "wrong_key": await raised_by(connect(url, WRONG_KEY)),
    }


async def connect(url: str, key: str) -> None:
    async with Client(url + FEW, auth=key):
        pass


run(visit)
