"""LangGraph's agent with Finport's tools: python with_langgraph.py MODEL QUESTION"""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")


async def main(model: str, question: str) -> None:
    finport = MultiServerMCPClient({"finport": {"transport": "streamable_http", "url": URL}})
    agent = create_agent(f"openai:{model}", await finport.get_tools())
    told = await agent.ainvoke({"messages": [{"role": "user", "content": question}]})
    print(told["messages"][-1].text)


asyncio.run(main(*sys.argv[1:]))
