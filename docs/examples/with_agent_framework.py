"""Microsoft's Agent Framework with our tools: python with_agent_framework.py MODEL QUESTION"""

import asyncio
import os
import sys

from agent_framework import Agent, MCPStreamableHTTPTool
from agent_framework.openai import OpenAIChatCompletionClient

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")


async def main(model: str, question: str) -> None:
    async with MCPStreamableHTTPTool("finport", URL, load_prompts=False) as finport:
        agent = Agent(OpenAIChatCompletionClient(model=model), tools=finport)
        print(await agent.run(question))


asyncio.run(main(*sys.argv[1:]))
