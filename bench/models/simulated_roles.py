"""What the simulated model says in each of its roles: a planner that plays a task's labelled tools,
a judge, a reader of constraints, a reducer of outputs.

The code is pure: a message depends only on the seed and the request. The first line of the system
message (`TASK: judge-answer`, ...) selects the role; a request without one gets the planner.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, TypeGuard

import orjson

from bench.task import Task, completed
from manifests import Catalog

PLANNER = "planner"
JUDGES = ("judge-answer", "judge-tools", "judge-match", "judge-trajectory")
RIGHT = 0.5
"""Share of tasks whose final answer is the gold answer."""
PAIRED = 0.3
"""Share of rounds with two calls, where two are left."""
MISMATCH = 0.15
"""Share of the tags of called tools that the judge finds not to suit the question."""
REDUCED_CHARS = 300
FOLLOWS = 0.8
"""Share of days on which a trader follows the momentum."""

_REASON = "Simulated: by whether the answer holds the reference, else by chance."
_ROLE = re.compile(r"TASK: ([a-z-]+)\s*(?:\n|$)")
_RUBRIC = re.compile(r'^- "(\w+)":', re.MULTILINE)
_OUTPUT = re.compile(r"^\W*output\b[^\n:]*:?\s*", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"[\d.,+\-eE%/\s亿万千百十兆]*\d[\d.,+\-eE%/\s亿万千百十兆]*")


class OddRequestError(Exception):
    """No endpoint would accept this request, or no role can answer it; the text says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the model; `calls` are names and arguments as text."""

    content: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    refusal: str | None = None
    finish: str = "stop"


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request that the roles use. `tools` are the offered tools, each with sample
    arguments by its schema, and is empty if none may be called. `prompt` is the system
    message, `rounds` counts the rounds played.
    """

    role: str
    prompt: str
    user: tuple[str, ...]
    tools: Mapping[str, dict[str, Any]]
    rounds: int

    @classmethod
    def read(cls, request: object) -> "Asked":
        """The parsed request. Raises `OddRequestError`."""
        messages = request.get("messages") if isinstance(request, dict) else None
        if not isinstance(request, dict) or not _are_objects(messages) or not messages:
            raise OddRequestError("messages: a list of messages is expected")
        tools = request.get("tools") or []
        if not _are_objects(tools) or not _are_objects([t.get("function") for t in tools]):
            raise OddRequestError("tools: a list of function tools is expected")
        may_call = request.get("tool_choice") != "none"
        prompt = next(iter(_texts_of(messages, "system")), "")
        said = _ROLE.match(prompt)
        rounds = sum(bool(m.get("tool_calls")) for m in messages if m.get("role") == "assistant")
        return cls(
            said[1] if said else PLANNER,
            prompt,
            tuple(_texts_of(messages, "user")),
            {str(t["function"].get("name")): t["function"] for t in tools} if may_call else {},
            rounds,
        )


class Roles:
    """Plays tasks with the tools of one catalogue."""

    def __init__(self, tasks: Iterable[Task], catalog: Catalog, seed: int) -> None:
        self._catalog = catalog
        self._share = partial(share, seed)
        self._tasks = {task.question: task for task in tasks}
        self._longest_first = sorted(self._tasks, key=len, reverse=True)
        self._contained = lru_cache(1024)(self._task_within)

    def say(self, asked: Asked) -> Said:
        """The model's next message. Raises `OddRequestError`."""
        match asked.role:
            case "planner":
                return self._plan(asked)
            case "judge-answer":
                score = self._score(_object(asked))
                return Said(_json({"score": score, "reason": _REASON}))
            case "judge-tools":
                return Said(_json({"tools": self._verdicts(_object(asked))}))
            case "judge-match":
                return Said(_json({"match": self._match(_object(asked))}))
            case "judge-trajectory":
                scores = self._trajectory_scores(_object(asked), asked.prompt)
                return Said(_json({**scores, "reason": _REASON}))
            case "constraints":
                return Said(_json(self._constraints(asked)))
            case "trade":
                return Said(_json(self._trade(_object(asked))))
            case "reduce":
                text = asked.user[-1] if asked.user else ""
                return Said(_OUTPUT.split(text, maxsplit=1)[-1][:REDUCED_CHARS])
        raise OddRequestError(f"no role is named {asked.role!r}")

    def any_call(self, asked: Asked) -> tuple[str, str]:
        """The call that is planned for this request, or another call of an offered tool."""
        planned = self._plan(asked).calls
        return planned[0] if planned else self._call(next(iter(asked.tools)), asked, None)

    def _plan(self, asked: Asked) -> Said:
        task = self._task(asked.user)
        rounds = self._rounds(task, asked.tools) if asked.tools else []
        if asked.rounds >= len(rounds):
            return Said(self._answer(task))
        calls = tuple(self._call(name, asked, task) for name in rounds[asked.rounds])
        return Said(calls=calls, finish="tool_calls")

    def _rounds(self, task: Task | None, offered: Iterable[str]) -> list[list[str]]:
        """The tools that are called, by round."""
        offered = list(offered)
        labelled = dict.fromkeys(call.name for call in task.tools) if task else {}
        names = [name for name in labelled if name in offered] or offered[:1]
        rounds: list[list[str]] = []
        while names:
            is_pair = self._share(task and task.id, "pair", len(rounds)) < PAIRED
            rounds.append(names[: 1 + is_pair])
            del names[: 1 + is_pair]
        return rounds

    def _call(self, name: str, asked: Asked, task: Task | None) -> tuple[str, str]:
        """A call with the arguments of its label, or the examples of its tool."""
        labelled = next((c.arguments for c in task.tools if c.name == name), {}) if task else {}
        manifest = self._catalog.get(name)
        if labelled:
            return name, _json(completed(name, labelled))
        return name, _json(manifest.sample() if manifest else _sample(asked.tools[name]))

    def _answer(self, task: Task | None) -> str:
        if task is None or not task.answer:
            return "The tools gave what the question asks for."
        is_right = self._share(task.id, "right") < RIGHT
        answer = task.answer if is_right else _wrong(task.answer)
        return f"\\boxed{{{answer}}}" if "boxed{}" in task.question else answer

    def _score(self, said: Mapping[str, Any]) -> float:
        question, gold, answer = (str(said.get(name)) for name in ("question", "gold", "answer"))
        if _holds(answer, gold):
            return 1
        is_half = self._share(question, answer, "score") < 0.5
        return 0.5 if is_half and said.get("kind") not in ("numeric", "choice") else 0

    def _trajectory_scores(self, said: Mapping[str, Any], prompt: str) -> dict[str, int]:
        """A score from 1 to 5 for each rubric that the prompt names, higher where the answer holds
        the reference.
        """
        reference, answer = str(said.get("reference")), str(said.get("answer"))
        most = 5 if _holds(answer, reference) else 4
        return {
            name: 1 + int(most * self._share(said.get("query"), answer, name))
            for name in _RUBRIC.findall(prompt)
        }

    def _verdicts(self, said: Mapping[str, Any]) -> list[dict[str, Any]]:
        tools = said.get("tools")
        if not _are_objects(tools):
            raise OddRequestError("a judge of tools needs a list of tools")
        return [
            {"name": tool.get("name")}
            | {
                tag: self._share(said.get("question"), tool.get("name"), tag) >= MISMATCH
                for tag in ("timeliness", "intent", "domain")
            }
            for tool in tools
        ]

    def _match(self, said: Mapping[str, Any]) -> str:
        """Whether one tag of a tool matches, the same as among all its tags."""
        tool = said.get("tool")
        if not isinstance(tool, dict):
            raise OddRequestError("a judge of a tool needs the tool")
        tags = {"intent_type": "intent", "regulatory_domains": "domain"}
        (tag,) = (tags.get(name, name) for name in tool if name not in ("name", "description"))
        matches = self._share(said.get("question"), tool.get("name"), tag) >= MISMATCH
        return "yes" if matches else "no"

    def _trade(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """A decision: it mostly follows the momentum, and names the first memory of each layer."""
        momentum, memories = said.get("momentum"), said.get("memories")
        follows = self._share(said.get("symbol"), said.get("date"), "trade") < FOLLOWS
        action = "hold"
        if follows and momentum in (1, -1):
            action = "buy" if momentum == 1 else "sell"
        layers = memories.values() if isinstance(memories, dict) else ()
        first = [layer[0].get("id") for layer in layers if _are_objects(layer) and layer]
        reason = f"The price moves by {momentum}; {len(first)} memories agree."
        return {"action": action, "reason": reason, "memories": first}

    def _constraints(self, asked: Asked) -> dict[str, Any]:
        """The tags of the task's labelled tools."""
        task = self._task(asked.user)
        labelled = [self._catalog.get(call.name) for call in task.tools] if task else []
        tools = [manifest for manifest in labelled if manifest is not None]
        domains = dict.fromkeys(d for tool in tools for d in tool.regulatory_domains)
        timeliness = tools[0].timeliness if tools else None
        return {"timeliness": timeliness, "domains": [*domains], "intent": "informational"}

    def _task(self, user: Sequence[str]) -> Task | None:
        """The task whose question equals a message of the user or is contained in it."""
        for text in user:
            if task := self._tasks.get(text) or self._contained(text):
                return task
        return None

    def _task_within(self, text: str) -> Task | None:
        found = next((q for q in self._longest_first if q in text), None)
        return self._tasks[found] if found is not None else None


def share(*about: object) -> float:
    """A number from 0 to below 1 that depends only on `about`."""
    digest = blake2b(repr(about).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def _holds(answer: str, gold: str) -> bool:
    """Whether an answer contains the gold one, ignoring case, width, blanks and commas."""
    plain, wanted = _plain(answer), _plain(gold)
    if not wanted:
        return False
    return re.search(rf"(?<![a-z0-9.]){re.escape(wanted)}(?![a-z0-9]|\.\d)", plain) is not None


def _plain(text: str) -> str:
    joined = re.sub(r"(?<=\d),(?=\d)", "", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(joined.split())


def _wrong(gold: str) -> str:
    """A wrong answer of the same kind."""
    gold = gold.strip()
    if len(gold) == 1 and gold in "ABCDE":
        return "ABCDE"[("ABCDE".index(gold) + 1) % 5]
    if _NUMBER.fullmatch(gold):
        return re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), gold)
    return "The tools do not say."


def _sample(function: Mapping[str, Any]) -> dict[str, Any]:
    """The required arguments, from the examples in a function's schema."""
    schema = function.get("parameters")
    if not isinstance(schema, dict):
        return {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return {}
    wanted = {name: properties.get(name) for name in required}
    return {
        name: about["examples"][0]
        for name, about in wanted.items()
        if isinstance(about, dict) and about.get("examples")
    }


def _object(asked: Asked) -> dict[str, Any]:
    """The JSON object in a judge's request. Raises `OddRequestError`."""
    try:
        said = orjson.loads(asked.user[-1] if asked.user else "")
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise OddRequestError("a judge's message holds one JSON object")
    return said


def _texts_of(messages: Iterable[dict[str, Any]], role: str) -> list[str]:
    """The texts of a role; content may be a list of parts."""
    texts = []
    for message in messages:
        if message.get("role") == role:
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            objects = (part for part in parts if isinstance(part, dict))
            texts.append("".join(str(part.get("text") or "") for part in objects))
    return texts


def _are_objects(value: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
