"""The agent `finmem`: trades from a layered memory, after FinMem (arXiv 2311.13743).

Each day it observes the market, recalls what the session's memory has on the day's news, or as the
authors' program does on the `profile` of the asset, and asks its model for a decision with a reason
and the memories that it rests on. In a warm-up that tells the next day's price, the position
follows that price, and the model gives the reason. The memory itself belongs to the session
(`adapters/market/memory.py`): a reason becomes a reflection, and what the position earns in three
days raises or lowers the importance of the memories. The prompt is in our words.
"""

import asyncio
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import orjson

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.conversation import noted
from bench.agents.declaration import AgentSettingsError, AgentType
from bench.agents.market import OBSERVE, TRADE, answer_of, beginning, observing
from bench.models.client import ModelClient
from bench.models.need import ModelNeed, Within
from manifests.common.regular_file import read_text

RECALL = "market_recall"
REASON_CHARS = 1_000
NEWS_CHARS = 1_000
"""How much of each of the day's texts the model reads."""

TEXTS = 10
"""The most texts of each kind and day that the model reads."""

QUESTION_CHARS = 400
PROFILE_CHARS = 4_000
"""The longest profile: that of a question to the memory."""

PROFILES_BYTES = 2**20

PROMPT = """\
TASK: trade
You trade one asset, {character}. Once a day you decide what to hold until tomorrow's price.

The user's message is one JSON object: the date, the symbol, today's price, its momentum (the sign \
of the price change over three trading days), the position held so far, today's news and reports, \
and memories in four layers: short (news), mid (quarterly reports), long (annual reports) and \
reflection (your own earlier reasons). It may hold a profile of the asset, and in a warm-up \
next_change, by how much the price changes until tomorrow: then explain that change.

First reflect: which memories bear on tomorrow's price, and did earlier reasons like yours turn \
out well? Then decide: buy (hold the asset), sell (be short in it) or hold (have none of it). When \
news, memory and momentum disagree, take less risk.

Answer with one JSON object and nothing else:
{{"action": "buy", "reason": "one or two sentences", "memories": [ids of the memories you used]}}"""

CHARACTER = "careful when prices fall, bolder when they rise"


@dataclass(frozen=True, slots=True)
class FinMemOptions:
    """`character` is how the agent trades, in words; `memories` are recalled of each layer.
    `profiles` names a JSON file that tells what the agent knows of each asset, by symbol; the
    `configs/main.json` of InvestorBench's authors is one.
    """

    character: str = CHARACTER
    memories: int = 5
    profiles: str = ""


class FinMemAgent:
    """Observes, recalls, decides."""

    name = "finmem"
    goes_on = True

    def __init__(self, model: ModelClient, options: FinMemOptions) -> None:
        self._model = model
        self._prompt = PROMPT.format(character=options.character)
        self._memories = options.memories
        self._profiles = _read_profiles(options.profiles) if options.profiles else {}

    async def act(self, episode: Episode) -> Turn:
        if not episode.history:
            return beginning(episode)
        last = episode.history[-1]
        answers = [answer_of(reply) for reply in last.replies]
        tool = last.turn.calls[0].tool
        episode.history[:] = [last]
        if tool == OBSERVE:
            episode.memory = answers[0]
            return Turn(calls=tuple(map(self._recalling, answers[0]["assets"])))
        seen = episode.memory
        if tool == RECALL:
            decided = await asyncio.gather(
                *(
                    self._decide(episode, seen["date"], asset, recalled)
                    for asset, recalled in zip(seen["assets"], answers, strict=True)
                )
            )
            return Turn(calls=tuple(decided))
        if answers[-1]["is_over"]:
            return Turn(answer=f"traded until {answers[-1]['date']}")
        return observing()

    def _recalling(self, asset: dict[str, Any]) -> ToolCall:
        news = " ".join(asset["news"])[:QUESTION_CHARS]
        profile = self._profiles.get(asset["symbol"], "")[:PROFILE_CHARS]
        question = profile or news or f"outlook of {asset['symbol']}"
        given = {"symbol": asset["symbol"], "question": question, "limit": self._memories}
        return ToolCall(RECALL, given)

    async def _decide(
        self, episode: Episode, date: str, asset: dict[str, Any], recalled: dict[str, Any]
    ) -> ToolCall:
        texts = {
            kind: [text[:NEWS_CHARS] for text in asset[kind][:TEXTS]]
            for kind in ("news", "quarterly_reports", "annual_reports")
        }
        known = {
            "date": date,
            **{name: asset[name] for name in ("symbol", "price", "momentum", "position")},
            **({"profile": profile} if (profile := self._profiles.get(asset["symbol"])) else {}),
            **({"next_change": asset["next_change"]} if "next_change" in asset else {}),
            **texts,
            "memories": {
                layer: [{name: one[name] for name in ("id", "date", "text")} for one in found]
                for layer, found in recalled["memories"].items()
            },
        }
        messages = [
            {"role": "system", "content": self._prompt},
            {"role": "user", "content": orjson.dumps(known).decode()},
        ]
        completion = await self._model.complete(messages, record=noted(self._model, episode, "act"))
        decided = _decision(completion.content)
        if (change := asset.get("next_change")) is not None:
            decided["action"] = "buy" if change > 0 else "sell" if change < 0 else "hold"
        return ToolCall(TRADE, {"date": date, "symbol": asset["symbol"], **decided})


def _read_profiles(name: str) -> dict[str, str]:
    """The profiles in a file, by symbol. Raises `AgentSettingsError`."""
    try:
        said = orjson.loads(read_text(Path(name), PROFILES_BYTES))
        profiles = said.get("agent_config", {}).get("character_string", said)
        return {str(symbol).upper(): str(text) for symbol, text in profiles.items()}
    except OSError as error:
        raise AgentSettingsError(f"profiles: {name}: {error.strerror}") from error
    except (orjson.JSONDecodeError, AttributeError) as error:
        text = f"profiles: {name} is no JSON object from symbols to texts"
        raise AgentSettingsError(text) from error


def _decision(text: str) -> dict[str, Any]:
    """The arguments of a trade that a model's text asks for. What can't be read is `hold`, with a
    reason that says so.
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        said = orjson.loads(text[start : end + 1])
    except orjson.JSONDecodeError:
        said = None
    action = said.get("action") if isinstance(said, dict) else None
    if not isinstance(said, dict) or action not in ("buy", "sell", "hold"):
        return {"action": "hold", "reason": "The model's decision could not be read."}
    memories = said.get("memories")
    ids = [str(one) for one in memories if type(one) is int] if isinstance(memories, list) else []
    reason = str(said.get("reason") or "").encode("utf-8", "replace").decode()
    return {"action": action, "reason": reason[:REASON_CHARS], "memories": ",".join(ids[:100])}


def _need(_: FinMemOptions, within: Within) -> ModelNeed:
    """One request a day and asset, each of which becomes a call. Its texts are those of a market,
    and have no bound.
    """
    opening = within.opening or {}
    assets = str(opening.get("symbols", "")).count(",") + 1
    most = within.calls + assets  # the last ones may exceed the limit
    try:
        first, last = (date.fromisoformat(str(opening[of])) for of in ("warm_up_from", "test_to"))
        most = min(most, max((last - first).days + 1, 1) * assets)
    except (KeyError, ValueError):
        pass
    return ModelNeed(most, None)


FINMEM = AgentType(
    "finmem",
    "trades a market from a layered memory",
    lambda options, parts: FinMemAgent(parts.needed_model, options),
    FinMemOptions,
    needs_model=True,
    need=_need,
)
