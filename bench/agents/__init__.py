"""Who solves tasks: the agent protocol and the agents that come with the project."""

from bench.agents.agent import Agent, Round, ToolCall, Turn
from bench.agents.scripted import ErrorRates, ScriptedAgent

__all__ = ["Agent", "ErrorRates", "Round", "ScriptedAgent", "ToolCall", "Turn"]
