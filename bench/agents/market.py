"""Agents for recorded markets that need no model: baselines, and steps to try an environment with.

They observe a day, then decide for each asset. `buy-and-hold` observes only the first day.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.declaration import AgentParts, AgentType, NoOptions
from gateway import Result

OBSERVE, TRADE = "market_observe", "market_trade"

Choice = Callable[[dict[str, Any], str], str]
"""The action for an asset as it was observed, in the episode and on the day of that name."""

_OF_SIGN = {1: "buy", -1: "sell", 0: "hold"}


class CallRefused(Exception):
    """The market answered a call with an error, or not as its tools do; the text says what."""


class MarketAgent:
    """Trades each day as `choose` says."""

    goes_on = True

    def __init__(self, name: str, choose: Choice, *, observes_each_day: bool = True) -> None:
        self.name = name
        self._choose = choose
        self._observes_each_day = observes_each_day

    async def act(self, episode: Episode) -> Turn:
        if not episode.history:
            return beginning(episode)
        replies = [answer_of(reply) for reply in episode.history[-1].replies]
        was_observed = episode.history[-1].turn.calls[0].tool == OBSERVE
        del episode.history[:-1]  # the answers of 150 days are megabytes
        if was_observed:
            seen = episode.memory = replies[0]
            return self._trading(episode, seen["date"])
        traded = replies[-1]
        if traded["is_over"]:
            return Turn(answer=f"traded until {traded['date']}")
        if self._observes_each_day:
            return observing()
        return self._trading(episode, traded["next_date"])

    def _trading(self, episode: Episode, date: str) -> Turn:
        name = f"{episode.task.id} {episode.repeat} {date}"
        calls = [
            ToolCall(
                TRADE,
                {
                    "date": date,
                    "symbol": asset["symbol"],
                    "action": self._choose(asset, f"{name} {asset['symbol']}"),
                },
            )
            for asset in episode.memory["assets"]
        ]
        return Turn(calls=tuple(calls))


def beginning(episode: Episode) -> Turn:
    """The first turn; an answer if an interrupted episode had come to its last day."""
    last = orjson.loads(str(episode.moves[-1].output)) if episode.moves else {}
    return Turn(answer=f"traded until {last['date']}") if last.get("is_over") else observing()


def observing() -> Turn:
    """The turn that observes the day."""
    return Turn(calls=(ToolCall(OBSERVE, {}),))


def answer_of(reply: Result) -> Any:
    """What a tool of the market answered. Raises `CallRefused`."""
    if not reply.ok:
        raise CallRefused(f"the market refused a call: {reply.message}")
    return orjson.loads(reply.data)


def _by_chance(seed: int, _: dict[str, Any], name: str) -> str:
    return random.Random(f"{seed} {name}").choice(("buy", "sell", "hold"))  # noqa: S311


def _of(name: str, text: str, by_seed: Callable[..., str]) -> AgentType[NoOptions]:
    def make(_: NoOptions, parts: AgentParts) -> MarketAgent:
        choose = partial(by_seed, parts.seed)
        return MarketAgent(name, choose, observes_each_day=name != "buy-and-hold")

    return AgentType(name, text, make, NoOptions)


BUY_AND_HOLD = _of("buy-and-hold", "holds each asset from the first day on", lambda *_: "buy")
RANDOM = _of("random", "buys, sells or holds by chance", _by_chance)
MOMENTUM = _of(
    "momentum",
    "follows the sign of the last three days",
    lambda _, asset, __: _OF_SIGN[asset["momentum"]],
)
