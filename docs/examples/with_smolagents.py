"""smolagents' agent with Finport's tools: python with_smolagents.py MODEL QUESTION"""

import os
import sys

from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8000/mcp")
model, question = sys.argv[1:]
finport = {"url": URL, "transport": "streamable-http"}
with MCPClient(finport, structured_output=False) as tools:
    print(ToolCallingAgent(tools, OpenAIModel(model)).run(question))
