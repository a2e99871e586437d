"""An agent outside Finport that trades a recorded market over MCP, from its first day to its last.

Start the gateway with a market, `finport serve --market FOLDER`, then run
`python docs/market_agent.py http://127.0.0.1:8000/mcp JNJ`. It needs the official client:
`pip install "mcp>=2"`. The strategy is one line: follow the momentum.
"""

import asyncio
import sys
from typing import Any

from mcp import Client

ACTIONS = {1: "buy", -1: "sell", 0: "hold"}


async def trade(url: str, symbol: str) -> None:
    async with Client(f"{url}?tools=source:market") as client:

        async def call(name: str, **arguments: Any) -> Any:
            result = await client.call_tool(f"market_{name}", arguments)
            if result.is_error:
                raise RuntimeError(result.content[0].text)
            return result.structured_content["data"]

        session = (await call("open", symbols=symbol))["session"]
        position, value, price, days, is_over = 0, 1.0, None, 0, False
        while not is_over:
            day = await call("observe", session=session)
            asset = day["assets"][0]
            if price is not None:
                value *= 1 + position * (asset["price"] / price - 1)
            action = ACTIONS[asset["momentum"]]
            done = await call("trade", session=session, date=day["date"], action=action)
            position, price = done["position"], asset["price"]
            days, is_over = days + 1, done["is_over"]
        await call("close", session=session)
        sys.stdout.write(f"{symbol}: {days} days until {day['date']}; 1 became {value:.4f}\n")


if __name__ == "__main__":
    asyncio.run(trade(*sys.argv[1:3]))
