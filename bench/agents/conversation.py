"""A conversation of function calling (OpenAI Chat Completions), as `llm` and `fatr` hold it.

What goes to a model is always a valid conversation, whatever it answered: each call has an id of
its own and is answered exactly once, a name is spelt as the API takes it, arguments are a JSON
object, and two messages of the user never follow one another. Messages are only ever added, so an
act costs what it adds.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from bench.agents.agent import Episode, ToolCall, Turn
from bench.client import Reply
from bench.models.client import Completion, FunctionCall, ModelClient
from bench.record import Ending, ModelCallRecord
from gateway.bind import REDACTED, masked
from gateway.json_text import Repeating, read_json
from manifests import Manifest
from manifests.export import export

LAST_WORD = "No more tool calls can be made. Give your final answer now, from what you know so far."
"""Asked of a model that has no rounds left."""

ANSWER_NOW = "Your last message was empty. Give your final answer now, without calling a tool."
"""Asked once of a model that answered with nothing, as in FinToolBench."""

RAW_CHARS = 200
"""What is kept of arguments that can't be read, in characters."""

_MOST_BRACKETS = 200
"""In the JSON of arguments, which are scalars: more is a model that ran away."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_VALUE = r"""("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|(?i:(?:bearer|basic)\s+)?[^\s,{}\[\]]+)"""
_PAIR = re.compile(rf"""(["']?)\b([A-Za-z][\w-]{{0,63}})\1\s*[:=]\s*{_VALUE}""")


class Tools:
    """Function tools as JSON, each encoded once; no more than the catalogue has."""

    def __init__(self, *, inject: bool) -> None:
        """`inject` puts the finance tags into the descriptions."""
        self._inject = inject
        self._encoded: dict[str, tuple[Manifest, bytes]] = {}

    def encoded(self, manifests: Iterable[Manifest]) -> tuple[bytes, ...]:
        return tuple(self._one(manifest) for manifest in manifests)

    def _one(self, manifest: Manifest) -> bytes:
        known = self._encoded.get(manifest.name)
        # By identity: a revision says nothing of the description, which is most of what is sent.
        if known is None or known[0] is not manifest:
            tool = orjson.dumps(export(manifest, "openai", tags=self._inject))
            known = self._encoded[manifest.name] = (manifest, tool)
        return known[1]


class Conversation:
    """The conversation of one episode with its planner."""

    def __init__(self, system: str, question: str, tools: tuple[bytes, ...]) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": question},
        ]
        self._tools = tools
        self._ids: set[str] = set()
        self._open: list[str] = []

    async def next_turn(self, model: ModelClient, episode: Episode) -> Turn:
        """What the planner does next; for its final answer where no rounds are left. A planner that
        returns nothing is asked once more. Raises `ModelError`.
        """
        last = episode.rounds_left == 0
        if last:
            self._request(LAST_WORD)
        turn = await self._ask(model, episode, last)
        if turn is None:
            self._request(ANSWER_NOW)
            turn = await self._ask(model, episode, True)
        return turn or Turn(ending=Ending.EMPTY)

    def answer(self, texts: Sequence[str]) -> None:
        """The outputs of the calls of the last turn, in their order."""
        for id_, text in zip(self._open, texts, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": text})
        self._open = []

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
        """The calls of an answer, which becomes a part of the conversation."""
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
        """A call as the conversation holds it: servers refuse one with arguments that they can't
        parse or a name that no function may have, and the next request would end the episode.
        """
        text = call.arguments if problem is None and arguments else orjson.dumps(arguments).decode()
        name = _NOT_IN_NAMES.sub("_", call.name)[:64]
        function = {"name": name, "arguments": text}
        return {"id": self._id_of(call), "type": "function", "function": function}

    def _id_of(self, call: FunctionCall) -> str:
        """The call's own id, or one of ours where a server gave none or gave it before; of nine
        letters and digits, since some models' templates take no other.
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


def is_refusal(completion: Completion) -> bool:
    """Whether the model, or what filters its answers, declined."""
    return bool(completion.refusal) or completion.finish == "content_filter"


def noted(model: ModelClient, episode: Episode, purpose: str) -> ModelCallRecord:
    """The record of a request that is about to be sent; the client fills it in."""
    step = len(episode.history) + 1
    record = ModelCallRecord(step, purpose, model.model, at=0.0, elapsed_ms=0.0)
    episode.model_calls.append(record)
    return record


def error_text(reply: Reply) -> str:
    """How a failed call is told to a model."""
    return orjson.dumps({"error": {"code": reply.code, "message": reply.message}}).decode()


def read_arguments(text: str, cut_off: bool = False) -> tuple[dict[str, Any], str | None]:
    """The arguments that a model wrote and, where they can't be read, why; then the start of what
    it wrote stands under `_raw`. No text at all, as some servers send it for a call without
    arguments, means none, unless the answer was cut off at its length.
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
        return {"_raw": _legible(text)}, f"the arguments are not JSON: {error}{where}"
    return arguments, None


def _legible(text: str) -> str:
    """The start of a text, without the values of what is named like a credential."""
    return _PAIR.sub(_masked_pair, text[: 10 * RAW_CHARS])[:RAW_CHARS]


def _masked_pair(pair: re.Match[str]) -> str:
    name = pair[2]
    return pair[0] if masked({name: ""})[name] == "" else f"{name}: {REDACTED}"
