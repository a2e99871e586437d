"""An agent of Pydantic AI for `finbench run --agent python:analyst:analyst`, its model in MODEL."""

import os

from pydantic_ai import Agent, FunctionToolset, Tool

from finport import ToolBox


def analyst():
    agent = Agent(f"openai-chat:{os.environ['MODEL']}")

    async def answer(question: str, tools: ToolBox) -> str:
        offered = [
            Tool.from_schema(tool.call, tool.name, tool.description, tool.parameters)
            for tool in tools
        ]
        return (await agent.run(question, toolsets=[FunctionToolset(offered)])).output

    return answer
