"""Agents whose turns are a function, and a tool client that answers at once."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from bench.agents import Episode, Turn
from bench.client import Reply
from gateway import CallContext


class Loopback:
    """A tool client that answers at once, and counts how many calls are under way."""

    def __init__(self) -> None:
        self.calls = 0

    async def hosts(self) -> dict[str, dict[str, Any]]:
        return {}

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Reply:
        assert not context.is_shortened, "its agents ask for whole answers"
        self.calls += 1
        await asyncio.sleep(0)
        data = json.dumps([tool, arguments, context.episode, context.step], default=str).encode()
        return Reply(True, str(self.calls), data=data)


class Made:
    """An agent whose every turn is the same function."""

    name = "made"

    def __init__(self, act: Any) -> None:
        self._act = act

    async def act(self, episode: Episode) -> Turn:
        turn: Turn = await self._act(episode)
        return turn
