"""Agents whose turns are a function, and a tool client that answers at once."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from bench.agents import Episode, Turn
from gateway import CallContext, Result
from tests.support.answers import answer


class Loopback:
    """A tool client that answers at once, and counts how many calls are under way."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        assert not context.is_shortened, "its agents ask for whole answers"
        self.calls += 1
        await asyncio.sleep(0)
        data = json.dumps([tool, arguments, context.episode, context.step], default=str).encode()
        return answer(data, call_id=str(self.calls))


class Made:
    """An agent whose every turn is the same function."""

    name = "made"

    def __init__(self, act: Any) -> None:
        self._act = act

    async def act(self, episode: Episode) -> Turn:
        turn: Turn = await self._act(episode)
        return turn
