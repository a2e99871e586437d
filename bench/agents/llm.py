"""The agent `llm`: plain function calling, as a baseline for others.

It sees the question, the offered tools and the results of its calls. Outputs over FinToolBench's
bound are cut without a model. Across episodes it keeps only the JSON of tools.
"""

from dataclasses import dataclass

from bench.agents.agent import Episode, Round, Turn
from bench.agents.conversation import Conversation, Tools, error_text
from bench.agents.declaration import AgentParts, AgentType
from bench.agents.excerpt import excerpt, whole
from bench.models.client import ModelClient
from bench.record import OUTPUT_CHARS

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


class LlmAgent:
    """Function calling with one model."""

    name = "llm"

    def __init__(self, model: ModelClient, *, inject: bool = True) -> None:
        """`inject` puts the finance tags into the descriptions of tools."""
        self._model = model
        self._tools = Tools(inject=inject)

    async def act(self, episode: Episode) -> Turn:
        conversation: Conversation | None = episode.memory
        if conversation is None:
            system = PLANNER.format(rounds=episode.rounds_left)
            tools = self._tools.encoded(episode.tools)
            conversation = Conversation(system, episode.task.question, tools)
            episode.memory = conversation
        else:
            conversation.answer(_read(episode.history[-1]))
        return await conversation.next_turn(self._model, episode)


def _read(made: Round) -> list[str]:
    """The result of each call of a round, as the model reads it."""
    texts = []
    for place, reply in enumerate(made.replies):
        text = whole(reply.data, OUTPUT_CHARS, reply.part) if reply.ok else error_text(reply)
        if text is None:
            text = made.observed[place] = excerpt(reply.data, OUTPUT_CHARS, reply.part)
        texts.append(text)
    return texts


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """`inject` puts the finance tags into the descriptions of tools."""

    inject: bool = True


def _make(options: LlmOptions, parts: AgentParts) -> LlmAgent:
    assert parts.model is not None  # noqa: S101 - the agent's type requires a model
    return LlmAgent(parts.model, inject=options.inject)


LLM = AgentType("llm", "plain function calling", _make, LlmOptions, needs_model=True)
