"""An episode as a conversation with function calling, for training.

Messages and tools have the form that transformers' chat templates take and TRL documents: a call is
`{"id", "type": "function", "function": {"name", "arguments"}}` with its arguments as an object, and
a result is a message `tool` with the `tool_call_id` and `name` of its call. The result is what the
agent read.

A record does not hold what an agent's prompts were. Those of the agent `llm` are the same for every
question, so its conversation is given whole. Where it was offered no tools, it sent the question
alone. That of any other agent, or in an environment, where it begins anew again and again, has the
question, the calls, their results and the answer.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from bench.agents.conversation import ANSWER_NOW, LAST_WORD, error_text
from bench.agents.llm import PLANNER, LlmAgent
from bench.record import DRIVER, EpisodeRecord, ToolCallRecord
from bench.runs.driver import Limits
from bench.runs.episode import WITHHELD
from bench.runs.reader import Run, text_of
from gateway.pipeline.bind import REDACTED
from manifests import Catalog
from manifests.export import export

Message = dict[str, Any]

_EXCERPTS = ({"_raw"}, {"too_large"}, {"not_json"})
"""The names under which a record has an excerpt in place of arguments that it could not hold."""


class Conversations:
    """The episodes of one run as conversations."""

    def __init__(self, run: Run, catalog: Catalog) -> None:
        """`catalog` has the tools that were offered in the run."""
        about = run.about
        rounds = about.limits.get("rounds")
        self._is_llm = about.agent == LlmAgent.name
        self._rounds = Limits().rounds if rounds is None else int(rounds)
        self._keeps_texts = about.agent != "fatr"  # it states its constraints in its first text
        self._tags = about.content.get("inject") is not False
        self._catalog = catalog
        self._tools: dict[str, dict[str, Any]] = {}

    def prompt(self, record: EpisodeRecord) -> list[Message]:
        """The messages up to the question."""
        question = {"role": "user", "content": record.question}
        if not self._has_prompts(record) or not record.candidate_tools:
            return [question]
        return [{"role": "system", "content": PLANNER.format(rounds=self._rounds)}, question]

    def completion(self, record: EpisodeRecord) -> list[Message]:
        """The messages after the question, the last of which is the answer."""
        rounds = rounds_of(record.agent_calls, "call{:05}")
        messages: list[Message] = []
        for calls, said in zip(rounds, self._said(record, len(rounds)), strict=True):
            made = [_call(*call) for call in calls]
            messages.append({"role": "assistant", "content": said, "tool_calls": made})
            messages += [_result(*call) for call in calls]
        if rounds and (reminder := self._reminder(record, len(rounds))):
            messages.append({"role": "user", "content": reminder})
        messages.append({"role": "assistant", "content": record.execution_result})
        return messages

    def tools(self, names: Iterable[str]) -> list[dict[str, Any]] | None:
        """The function schemas of these tools, as the agent saw them; None if the catalogue lacks
        one.
        """
        found = []
        for name in names:
            schema = self._tools.get(name)
            if schema is None:
                if (manifest := self._catalog.get(name)) is None:
                    return None
                schema = self._tools[name] = export(manifest, "openai", tags=self._tags)
            found.append(schema)
        return found

    def _has_prompts(self, record: EpisodeRecord) -> bool:
        """Whether what the agent was sent beside the question and the results is known."""
        return self._is_llm and all(call.step != DRIVER for call in record.tool_calls)

    def _said(self, record: EpisodeRecord, rounds: int) -> list[str]:
        """The text beside the calls of each round. A record does not say which turns had no text,
        so texts are kept only if there is one for each round.
        """
        if self._keeps_texts and len(record.response) >= rounds:
            return record.response[:rounds]
        return [""] * rounds

    def _reminder(self, record: EpisodeRecord, rounds: int) -> str:
        """What the agent was told before its answer (`bench/agents/conversation.py`)."""
        if not self._has_prompts(record):
            return ""
        asked = sum(call.purpose == "final" for call in record.model_calls)
        is_last = rounds >= self._rounds
        told = [LAST_WORD] if is_last else []
        return "\n\n".join([*told, ANSWER_NOW] if asked > is_last else told)


def rounds_of(
    calls: Iterable[ToolCallRecord], name: str, first: int = 0
) -> list[list[tuple[str, ToolCallRecord]]]:
    """Calls by round, each with an id: the `name` with its number, from `first` on."""
    in_order = enumerate(sorted(calls, key=lambda call: call.step), first)
    numbered = [(name.format(number), call) for number, call in in_order]
    return [list(made) for _, made in groupby(numbered, lambda one: one[1].step)]


def is_recorded(record: EpisodeRecord) -> bool:
    """Whether the record holds all calls as they were made, and all results that were read."""
    return not any(
        WITHHELD in (call.output, call.observed)
        or (not call.ok and call.parameters.keys() in _EXCERPTS)
        or _is_redacted(call.parameters)
        for call in record.agent_calls
    )


def _is_redacted(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_redacted, value.values()))
    if isinstance(value, list):
        return any(map(_is_redacted, value))
    return bool(value == REDACTED)


def _call(name: str, call: ToolCallRecord) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": call.parameters}
    return {"id": name, "type": "function", "function": function}


def _result(name: str, call: ToolCallRecord) -> Message:
    about = {"role": "tool", "tool_call_id": name, "name": call.tool_name}
    return {**about, "content": _read(call)}


def _read(call: ToolCallRecord) -> str:
    """What the agent read of a call."""
    if call.observed is not None:
        return call.observed
    if call.ok or not isinstance(call.output, dict):
        return text_of(call.output)
    message = str(call.output.get("error", ""))
    return error_text(call.code, message)
