"""Pydantic AI's agent with Finport's tools: python with_pydantic_ai.py MODEL QUESTION"""

import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")
model, question = sys.argv[1:]
agent = Agent(f"openai-chat:{model}", toolsets=[MCPToolset(URL)])
print(agent.run_sync(question).output)
