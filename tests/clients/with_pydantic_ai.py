"""Pydantic AI: an agent with a server's tools, whose model makes the calls that it is told to."""

from typing import Any

from program import ALL, COIN, FEW, HISTORY, ORDER, WRONG, WRONG_KEY, bearer, raised_by, run
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

Call = tuple[str, dict[str, Any]]


class Analyst:
    """An agent that makes its calls in one turn, and what it was offered and given."""

    def __init__(self, url: str, key: str, *calls: Call) -> None:
        self.calls = calls
        self.offered: list[str] = []
        self.answers: list[str] = []
        self.errors: list[str] = []
        toolset = MCPToolset(url, headers=bearer(key))
        self.agent = Agent(FunctionModel(self.turn), toolsets=[toolset])

    def turn(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            self.offered = [tool.name for tool in info.function_tools]
            return ModelResponse([ToolCallPart(*call) for call in self.calls])
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                told = self.answers if part.outcome == "success" else self.errors
                told.append(part.model_response_str(wrap_if_error=False))
        return ModelResponse([TextPart("done")])

    async def work(self) -> "Analyst":
        await self.agent.run("Work.")
        return self


async def visit(url: str, key: str) -> dict[str, Any]:
    many = await Analyst(url + ALL, key, COIN, HISTORY, WRONG).work()
    few = await Analyst(url + FEW, key, ORDER).work()
    return {
        "listed": many.offered,
        "called": many.answers + few.answers,
        "error": "".join(many.errors),
        "wrong_key": await raised_by(Analyst(url + FEW, WRONG_KEY).work()),
    }


run(visit)
