"""A conversation with function calling (OpenAI Chat Completions), used by `llm` and `fatr`.

What is sent to a model is always a valid conversation, whatever the model answered. Each call has
its own id and exactly one answer, names are spelt as the API accepts them, arguments are a JSON
object, and a user message never follows another user message. Messages are only added, so an act
costs what it adds.

An episode in an environment may have hundreds of days, so there the conversation is bounded: after
the end of a day it begins anew, with the latest moves in place of what was said, and of a day only
the last rounds are kept.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from bench.agents.agent import Episode, Round, ToolCall, Turn
from bench.models.client import Completion, FunctionCall, ModelClient
from bench.models.need import BYTES_A_CHARACTER, ERROR_BYTES, MESSAGE_BYTES, ModelNeed, Within, size
from bench.models.transcript import masked_pairs
from bench.record import OUTPUT_CHARS, Ending, ModelCallRecord, ToolCallRecord
from gateway.compress.cut import cut
from manifests import Manifest
from manifests.common.json_text import Repeating, read_json
from manifests.export import export
from manifests.fintoolbench import Card

LAST_WORD = "No more tool calls can be made. Give your final answer now, from what you know so far."
"""Sent to a model that has no rounds left."""

ANSWER_NOW = "Your last message was empty. Give your final answer now, without calling a tool."
"""Sent once to a model that answered with nothing, as in FinToolBench."""

MOVES = """\
Moves so far: {count}. The latest ones, each with its result:
{lines}"""
"""Follows the question in a conversation that begins anew."""

MOVES_CHARS, MOVE_CHARS = 4_000, 400
"""How much a model reads of its moves together, and of the arguments and the result of each."""

KEPT_ROUNDS = 16
"""How many rounds of a day a conversation holds."""

RAW_CHARS = 200
"""How many characters are kept of arguments that can't be read."""

_MOST_BRACKETS = 200
"""The most brackets in the JSON of arguments, which are scalars: more come from a runaway model."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class FunctionTools:
    """Function tools as JSON, each encoded once; at most as many as the catalogue has."""

    def __init__(self, cards: Mapping[str, Card], *, inject: bool) -> None:
        """`cards` are shown in place of manifests; `inject` puts the finance tags into the
        descriptions.
        """
        self._cards = cards
        self._inject = inject
        self._encoded: dict[str, tuple[Manifest, bytes]] = {}

    def encoded(self, manifests: Iterable[Manifest]) -> tuple[bytes, ...]:
        return tuple(self._one(manifest) for manifest in manifests)

    def _one(self, manifest: Manifest) -> bytes:
        known = self._encoded.get(manifest.name)
        # By identity: the revision does not cover the description, which is most of the JSON.
        if known is None or known[0] is not manifest:
            card = self._cards.get(manifest.name)
            function = (
                export(manifest, "openai", tags=self._inject)
                if card is None
                else card.function(tags=self._inject)
            )
            tool = orjson.dumps(function)
            known = self._encoded[manifest.name] = (manifest, tool)
        return known[1]


def read(made: Round) -> list[str]:
    """The result of each call of a round, as a model reads it. One that is longer than a record
    holds is noted in `observed`.
    """
    texts = [
        reply.text() if reply.ok else error_text(reply.code, reply.message)
        for reply in made.replies
    ]
    for place, text in enumerate(texts):
        if made.replies[place].ok and len(text) > OUTPUT_CHARS:
            made.observed[place] = text
    return texts


class Conversation:
    """The conversation of one episode with its planner."""

    def __init__(self, system: str | None, question: str, tools: tuple[bytes, ...]) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        if system is not None:
            self.messages.insert(0, {"role": "system", "content": system})
        self._question, self._head = question, len(self.messages)
        self._moves = 0
        self._tools = tools
        self._ids: set[str] = set()
        self._open: list[str] = []

    async def next_turn(self, model: ModelClient, episode: Episode) -> Turn:
        """The planner's next turn. It is asked for its final answer if no rounds are left, and once
        more if it returned nothing. Raises `ModelError`.
        """
        if episode.moves is not None:
            self._forget(episode.moves)
        last = episode.rounds_left == 0
        if last:
            self._request(LAST_WORD)
        turn = await self._ask(model, episode, last)
        if turn is None:
            self._request(ANSWER_NOW)
            turn = await self._ask(model, episode, True)
        return turn or Turn(ending=Ending.EMPTY)

    def answer(self, texts: Sequence[str]) -> None:
        """Add the outputs of the calls of the last turn, in their order."""
        for id_, text in zip(self._open, texts, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": text})
        self._open = []

    def _forget(self, moves: Sequence[ToolCallRecord]) -> None:
        """Begin anew if there are new moves, else leave out the oldest rounds if there are many."""
        if len(moves) > self._moves:
            self._moves = len(moves)
            told = MOVES.format(count=len(moves), lines="\n".join(latest(moves)))
            question = {"role": "user", "content": f"{self._question}\n\n{told}"}
            self.messages[self._head - 1 :] = [question]
            return
        rounds = [n for n, message in enumerate(self.messages) if "tool_calls" in message]
        if len(rounds) > KEPT_ROUNDS:
            del self.messages[self._head : rounds[-KEPT_ROUNDS]]

    async def _ask(self, model: ModelClient, episode: Episode, final: bool) -> Turn | None:
        completion = await model.complete(
            self.messages,
            tools=self._tools,
            tool_choice="none" if final and self._tools else None,
            record=noted(model, episode, "final" if final else "act"),
        )
        content = completion.content.strip()
        if is_refusal(completion):
            return Turn(answer=completion.refusal or content, ending=Ending.REFUSAL)
        if completion.calls:
            return Turn(calls=self._note(completion, content), response=content)
        return Turn(answer=content) if content else None

    def _note(self, completion: Completion, content: str) -> tuple[ToolCall, ...]:
        """Add a model's message to the conversation and return its calls."""
        cut_off = completion.finish == "length"
        made, kept = [], []
        for call in completion.calls:
            arguments, problem = read_arguments(call.arguments, cut_off)
            made.append(ToolCall(call.name, arguments, problem))
            kept.append(self._message_of(call, arguments, problem))
        self.messages.append({"role": "assistant", "content": content or None, "tool_calls": kept})
        return tuple(made)

    def _message_of(
        self, call: FunctionCall, arguments: dict[str, Any], problem: str | None
    ) -> dict[str, Any]:
        """A call as the conversation holds it. Servers refuse arguments that they can't parse and
        names that no function may have; the next request would then end the episode.
        """
        text = call.arguments if problem is None and arguments else orjson.dumps(arguments).decode()
        name = _NOT_IN_NAMES.sub("_", call.name)[:64]
        function = {"name": name, "arguments": text}
        return {"id": self._id_of(call), "type": "function", "function": function}

    def _id_of(self, call: FunctionCall) -> str:
        """The call's own id, or a new one where the server gave none or repeated one. A new id has
        nine letters and digits, since some models' templates accept no others.
        """
        id_, number = call.id, len(self._ids)
        while not id_ or id_ in self._ids:
            id_ = f"call{number:05}"
            number += 1
        self._ids.add(id_)
        self._open.append(id_)
        return id_

    def _request(self, text: str) -> None:
        last = self.messages[-1]
        if last["role"] == "user":
            self.messages[-1] = {**last, "content": f"{last['content']}\n\n{text}"}
        else:
            self.messages.append({"role": "user", "content": text})


def most_requested(system: int, within: Within, output_chars: int) -> ModelNeed:
    """The most that the conversation of an episode requests, with a system message of so many
    bytes: each turn may be asked for twice, and every call may be made in the first round.
    """
    turns, rounds = within.played_rounds + 1, within.played_rounds
    head = system + size(within.task.question, LAST_WORD, ANSWER_NOW) + within.tools_bytes
    if within.opening is not None:
        rounds = min(rounds, KEPT_ROUNDS)
        head += size(MOVES) + MOVES_CHARS * BYTES_A_CHARACTER
    outputs = rounds * within.calls * within.read_bytes(output_chars)
    answers = sum(min(turn, rounds) for turn in range(turns))
    need = ModelNeed(turns, turns * (head + MESSAGE_BYTES) + outputs, answers)
    return need.times(within.asks_a_turn)


def latest(moves: Sequence[ToolCallRecord]) -> list[str]:
    """The latest calls as lines, oldest first: as many as a model reads."""
    lines: list[str] = []
    left = MOVES_CHARS
    for call in reversed(moves):
        made, result = orjson.dumps(call.parameters).decode(), str(call.output)
        line = f"{call.tool_name} {cut(made, MOVE_CHARS)} -> {cut(result, MOVE_CHARS)}"
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return lines[::-1]


def is_refusal(completion: Completion) -> bool:
    """Whether the model, or a filter of its answers, declined."""
    return bool(completion.refusal) or completion.finish == "content_filter"


def noted(model: ModelClient, episode: Episode, purpose: str) -> ModelCallRecord:
    """The record of a request that is about to be sent; the client fills it in."""
    record = ModelCallRecord(episode.step, purpose, model.model, at=0.0, elapsed_ms=0.0)
    episode.model_calls.append(record)
    return record


def error_text(code: str | None, message: str | None) -> str:
    """The text with which a model is informed of a failed call."""
    told = message and message[: ERROR_BYTES // BYTES_A_CHARACTER]
    return orjson.dumps({"error": {"code": code, "message": told}}).decode()


def read_arguments(text: str, cut_off: bool = False) -> tuple[dict[str, Any], str | None]:
    """The arguments that a model wrote. If they can't be read, the second value says why, and the
    start of the text is kept under `_raw`. An empty text, which some servers send for a call
    without arguments, means no arguments, unless the answer was cut off at its length.
    """
    if not text.strip() and not cut_off:
        return {}, None
    try:
        if text.count("{") + text.count("[") > _MOST_BRACKETS:
            raise ValueError("they are nested too deeply")
        arguments = read_json(text.encode())
        if not isinstance(arguments, dict):
            raise ValueError("they must be one JSON object")
        if isinstance(arguments, Repeating):
            raise ValueError(f"they give {arguments.repeated[0][:RAW_CHARS]} more than once")
    except ValueError as error:
        where = "; the answer was cut off at its length" if cut_off else ""
        raw = masked_pairs(text[: 10 * RAW_CHARS])[:RAW_CHARS]
        return {"_raw": raw}, f"the arguments are not JSON: {error}{where}"
    return arguments, None
