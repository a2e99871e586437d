"""Messages of Inspect AI as Chat Completions has them, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
)
from inspect_ai.tool import ToolCall, ToolCallError

OF_THE_CONNECTION = ("unknown", "timeout", "cancelled")
"""Inspect's errors of a call that are a gateway's, if their text is no envelope of one. The others
are about what the agent asked for.
"""


def to_chat(messages: Sequence[ChatMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        told: dict[str, Any] = {"role": message.role, "content": message.text}
        if isinstance(message, ChatMessageAssistant) and message.tool_calls:
            told["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.function,
                        "arguments": json.dumps(call.arguments, ensure_ascii=False),
                    },
                }
                for call in message.tool_calls
            ]
        if isinstance(message, ChatMessageTool):
            told["tool_call_id"] = message.tool_call_id
            if message.error is not None:
                told |= _failed(message.function or "", message.error)
        yield told


def _failed(tool: str, error: ToolCallError) -> dict[str, Any]:
    if error.type in OF_THE_CONNECTION:
        return {"content": error.message, "is_error": True}
    why = {"code": "invalid_arguments", "fault": "agent", "message": error.message}
    return {"content": json.dumps({"ok": False, "tool": tool, "error": why})}


def from_chat(messages: Sequence[Mapping[str, Any]]) -> Iterator[ChatMessage]:
    """Messages as `bench.rollouts.messages_of` makes them, which Inspect's MCP tools would leave:
    a failed call has its envelope as the text of its error.
    """
    names: dict[str, str] = {}
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "assistant":
            calls = [
                ToolCall(
                    id=call["id"],
                    function=call["function"]["name"],
                    arguments=json.loads(call["function"]["arguments"]),
                )
                for call in message.get("tool_calls") or ()
            ]
            names |= {call.id: call.function for call in calls}
            yield ChatMessageAssistant(content=content, tool_calls=calls or None)
        elif message["role"] == "tool":
            id_ = message["tool_call_id"]
            has_failed = json.loads(content)["ok"] is False
            yield ChatMessageTool(
                content="" if has_failed else content,
                tool_call_id=id_,
                function=names.get(id_),
                error=ToolCallError("unknown", content) if has_failed else None,
            )
        elif message["role"] == "system":
            yield ChatMessageSystem(content=content)
        else:
            yield ChatMessageUser(content=content)
