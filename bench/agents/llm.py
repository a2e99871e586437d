"""The agent `llm`: plain function calling, as a baseline for others.

It sees the question, the offered tools and the results of its calls. The gateway shortens outputs
over FinToolBench's bound to what the question needs. Where no tools are offered, the model gets the
question and nothing else. In a market each day is a conversation of its own. Across episodes the
agent keeps only the JSON of tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.agents.agent import Episode, Turn
from bench.agents.conversation import Conversation, FunctionTools, most_requested, read
from bench.agents.declaration import AgentType
from bench.models.client import ModelClient
from bench.models.need import ModelNeed, Within, size
from bench.record import OUTPUT_CHARS
from manifests.fintoolbench import Card

PLANNER = """\
You answer questions about finance with the tools that you are given.

- Whatever depends on data comes from a tool. Never make a figure up or take it from memory.
- Calls that do not depend on each other belong into one message: they are made at once. There are \
at most {rounds} rounds of calls.
- A failed call says what was wrong. Correct it or take another tool; do not repeat it as it was.
- A long output reaches you shortened and says so. If what you need is not in it, call again with \
narrower arguments.
- When you know enough, answer in the language of the question, in few words: first the figure \
with its unit, the letter of the right choice or the fact that is asked for, then what it rests on.
- If the tools can't answer the question, say so."""


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """`inject` puts the finance tags into the descriptions of tools."""

    inject: bool = True


class LlmAgent:
    """Function calling with one model."""

    name = "llm"
    goes_on = True
    output_chars = OUTPUT_CHARS

    def __init__(
        self,
        model: ModelClient,
        options: LlmOptions | None = None,
        cards: Mapping[str, Card] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._tools = FunctionTools(cards, inject=(options or LlmOptions()).inject)

    async def act(self, episode: Episode) -> Turn:
        conversation: Conversation | None = episode.memory
        if conversation is None:
            rounds = episode.rounds_left + episode.step - 1  # also of an interrupted part
            system = PLANNER.format(rounds=rounds) if episode.tools else None
            tools = self._tools.encoded(episode.tools)
            conversation = Conversation(system, episode.task.question, tools)
            episode.memory = conversation
        else:
            conversation.answer(read(episode.history[-1]))
        return await conversation.next_turn(self._model, episode)


def _need(_: LlmOptions, within: Within) -> ModelNeed:
    return most_requested(size(PLANNER), within, OUTPUT_CHARS)


LLM = AgentType(
    "llm",
    "plain function calling",
    lambda options, parts: LlmAgent(parts.needed_model, options, parts.catalog.cards),
    LlmOptions,
    needs_model=True,
    need=_need,
)
