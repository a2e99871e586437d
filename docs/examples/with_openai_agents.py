"""OpenAI Agents with Finport's tools: python with_openai_agents.py MODEL QUESTION"""

import asyncio
import os
import sys

from agents import Agent, Runner, set_default_openai_api
from agents.mcp import MCPServerStreamableHttp

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")


async def main(model: str, question: str) -> None:
    async with MCPServerStreamableHttp({"url": URL}) as finport:
        agent = Agent("analyst", model=model, mcp_servers=[finport])
        print((await Runner.run(agent, question)).final_output)


set_default_openai_api("chat_completions")
asyncio.run(main(*sys.argv[1:]))
