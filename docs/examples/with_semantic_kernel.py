"""Semantic Kernel's agent with Finport's tools: python with_semantic_kernel.py MODEL QUESTION"""

import asyncio
import os
import sys

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")


async def main(model: str, question: str) -> None:
    async with MCPStreamableHttpPlugin("finport", URL, load_prompts=False) as finport:
        agent = ChatCompletionAgent(service=OpenAIChatCompletion(model), plugins=[finport])
        print(await agent.get_response(question))


asyncio.run(main(*sys.argv[1:]))
