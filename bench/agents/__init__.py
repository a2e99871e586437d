"""The agents that solve tasks: the agent protocol and the agents that come with the project."""

from bench.agents.agent import Agent, Episode, Round, ToolCall, Turn
from bench.agents.scripted import ErrorRates, ScriptedAgent
from bench.models.client import ModelError
from bench.record import Ending, ModelCallRecord

__all__ = [
    "Agent",
    "Ending",
    "Episode",
    "ErrorRates",
    "ModelCallRecord",
    "ModelError",
    "Round",
    "ScriptedAgent",
    "ToolCall",
    "Turn",
]
