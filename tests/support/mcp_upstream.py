"""An MCP server as others write it, made with the official SDK, as a program.

`python -m tests.support.mcp_upstream FOLDER http PORT` or `... FOLDER stdio`. The folder says how
it behaves: `price` is what it answers, the names in `more` are further tools, and a file `hung`
makes it stop. In `log` it writes what it was asked.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)


def made(folder: Path) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("desk", version="1.2")

    def noted(line: str) -> None:
        with (folder / "log").open("a") as log:
            log.write(f"{line}\n")

    @server.tool(annotations=READS)
    async def price(ticker: str, side: str | None = None, depth: int = 1) -> dict[str, Any]:
        """The price of a ticker on the desk."""
        noted(f"price {ticker}")
        while (folder / "hung").exists():
            time.sleep(0.05)  # noqa: ASYNC251 - all of it is to hang
        value = json.loads((folder / "price").read_text())
        return {"ticker": ticker, "price": value, "side": side, "depth": depth}

    @server.tool(annotations=READS)
    async def history(ticker: str, days: list[int]) -> list[dict[str, float]]:
        """Prices of the last days."""
        return [{"day": day, "price": day * 1.5 + len(ticker)} for day in days]

    @server.tool()
    async def order(ticker: str, amount: int) -> str:
        """Order so many."""
        noted(f"order {ticker} {amount}")
        return f"ordered {amount} of {ticker}"

    @server.tool(annotations=READS)
    async def slow(seconds: float) -> str:
        """Takes its time."""
        noted("slow begins")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            noted("slow cancelled")
            raise
        return "done"

    @server.tool(annotations=READS)
    async def failing(secret: str) -> str:
        """Fails."""
        raise ValueError(f"there is no {secret}; the key is {os.environ.get('DESK_KEY', 'none')}")

    @server.tool(annotations=READS)
    async def large(size: int) -> str:
        """A long text."""
        return "x" * size

    @server.tool(annotations=READS)
    async def picture() -> CallToolResult:
        """A picture and a text."""
        image = ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
        return CallToolResult(content=[image, TextContent(type="text", text="a chart")])

    @server.tool(annotations=READS)
    async def variables() -> list[str]:
        """The names of its variables."""
        return sorted(os.environ)

    @server.tool(annotations=READS)
    async def die() -> str:
        """Ends the server."""
        os._exit(3)

    @server.tool()
    async def relist(ctx: Context) -> str:
        """Takes the tools in `more`, and no others beside its own."""
        names = (folder / "more").read_text().split()
        for tool in [t for t in await server.list_tools() if t.name.startswith("more_")]:
            server.remove_tool(tool.name)
        for name in names:
            server.add_tool(more, name=name, annotations=READS)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "changed"

    async def more(x: int) -> int:
        """One more tool."""
        return x + 1

    if (folder / "more").exists():
        for name in (folder / "more").read_text().split():
            server.add_tool(more, name=name, annotations=READS)
    return server


def main() -> None:
    folder, transport = Path(sys.argv[1]), sys.argv[2]
    if transport == "stdio":
        sys.stderr.write("desk begins \x1b[31m red\n")
        sys.stderr.flush()
        made(folder).run("stdio")
        return
    made(folder).run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]))


if __name__ == "__main__":
    main()
