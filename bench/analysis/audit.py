"""The audit of generated tasks: that each has one answer, which tools give and no guess gives.

The oracle plays the calls of each task through a gateway and computes the answer from what the
tools answered. A solver that misreads a share of the facts shows whether difficulty is what it
says; blind ones show whether an answer can be guessed.
"""

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any, Final

from bench.agents.solver import Needed, guess, solved
from bench.analysis.agreement import spearman
from bench.runs.driver import Limits
from bench.suites.generated.answer import Answer
from bench.suites.generated.facts import AnswerError, answers_reader, call_of, share_served
from bench.suites.generated.program import evaluate, leaves
from bench.suites.generated.suite import Generated
from bench.task import Task
from gateway import Gateway

MISTAKES: Final = 0.05
"""The share of facts and operations that go wrong for the mistaken solver."""

LEAST_CORRELATION: Final = -0.9
LEAST_TASKS: Final = 100
"""The tasks of each difficulty without which its effect is not judged."""

MOST_ABOVE_CHANCE: Final = 0.01
AT_ONCE: Final = 64

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(slots=True)
class Audit:
    """What an audit found. `problems` are texts, the first few of each sort."""

    tasks: int = 0
    calls: int = 0
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    right: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    guessed: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    chances: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seen: set[int] = field(default_factory=set)

    def wrong(self, sort: str, task: Task, text: str = "") -> None:
        self.counts[sort] += 1
        if len(self.problems[sort]) < 3:
            self.problems[sort].append(f"{task.id} ({task.category}): {text}"[:300])

    def result(self) -> dict[str, Any]:
        """The figures, and whether the tasks pass."""
        levels = {
            str(level): {
                "tasks": found["tasks"],
                "oracle": found["oracle"] / found["tasks"],
                "mistaken": found["mistaken"] / found["tasks"],
                "random": found["random"] / found["tasks"],
                "calls": round(found["calls"] / found["tasks"], 2),
            }
            for level, found in sorted(self.right.items())
        }
        blind = self._blind()
        by_level = [row["mistaken"] for row in levels.values()]
        above = max((row["at_least"] for row in blind), default=0.0)
        passes = not self.counts.total() and above <= MOST_ABOVE_CHANCE
        is_enough = min((row["tasks"] for row in levels.values()), default=0) >= LEAST_TASKS
        by_ranks = None
        if is_enough and len(levels) > 2:
            by_ranks = spearman([*zip(map(float, levels), by_level, strict=True)])
        if by_ranks is not None:
            by_ranks = round(by_ranks, 4)
            passes &= by_ranks <= LEAST_CORRELATION
        served, every = share_served()
        return {
            "tasks": self.tasks,
            "calls": self.calls,
            "passes": passes,
            "difficulty": levels,
            "spearman": by_ranks,
            "blind": blind,
            "most_above_chance": MOST_ABOVE_CHANCE,
            "wrong": dict(self.counts),
            "problems": dict(self.problems),
            "tools": {"served": served, "all": every},
        }

    def _blind(self) -> list[dict[str, Any]]:
        """By the kind of answer that is asked for, the best of the blind agents. `at_least` is the
        lower end of the 99.9 % interval of what it has above chance.
        """
        rows = []
        for kind, found in sorted(self.guessed.items()):
            number, chance = found.pop("tasks"), fmean(self.chances[kind])
            constant = self.answers[kind].most_common(1)[0][1] - 1  # not the one it is taken from
            named = {name: count / number for name, count in found.items()}
            named["constant"] = constant / max(number - 1, 1) if kind in _CONSTANT else 0.0
            best = max(named, key=lambda name: named[name])
            right = named[best]
            row = {"asked": kind, "tasks": number, "chance": chance, "best": best, "right": right}
            above = right - chance
            rows.append({**row, "above_chance": above, "at_least": _lower(right, number) - chance})
        return rows


def _lower(share: float, number: int) -> float:
    """The lower end of the 99.9 % interval of a share (Wilson 1927): some fifty agents and kinds
    are compared.
    """
    z, n = 3.29, number
    middle = share + z * z / (2 * n)
    half: float = z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n)


_CONSTANT: Final = frozenset({"number", "date", "truth", "table"})
"""Kinds whose answers are the same texts in many tasks."""


async def audit(
    tasks: Iterator[Task], gateway: Gateway, told: Callable[[int], None] = lambda _: None
) -> Audit:
    """Audit tasks one after the other, `AT_ONCE` at a time."""
    found = Audit()
    while some := list(islice(tasks, AT_ONCE)):
        async with asyncio.TaskGroup() as group:
            for task in some:
                group.create_task(_audited(task, gateway, found))
        told(found.tasks)
    return found


async def _audited(task: Task, gateway: Gateway, found: Audit) -> None:
    gold = Answer.model_validate_json(task.answer)
    level, found.tasks = int(task.difficulty), found.tasks + 1
    rows = found.right[level]
    rows["tasks"] += 1
    _check(task, gold, found)
    answers: dict[str, bytes] = {}
    try:
        stated = await _played(task, gateway, answers)
        if gold.is_stated(stated):
            rows["oracle"] += 1
            _check_calls(task, gold, answers, found)
        else:
            found.wrong("the oracle is wrong", task, f"{stated!r} is not {gold.text!r}")
        rows["mistaken"] += _is_right_by_mistake(task, gold, answers)
    except AnswerError as error:
        found.wrong("the oracle has no answer", task, str(error))
    rows["calls"] += len(answers)
    found.calls += len(answers)
    _guess(task, gold, found, rows)


async def _played(task: Task, gateway: Gateway, answers: dict[str, bytes]) -> str:
    """The oracle's answer; `answers` get those of the tools. Raises `AnswerError`."""
    while True:
        try:
            return "Answer: " + solved(task, answers)
        except Needed as needed:
            tool, arguments = call_of(needed.leaf)
            reply = await gateway.call(tool, arguments)
            if not reply.ok:
                raise AnswerError(f"{tool}: {reply.message}") from None
            answers[needed.leaf.text] = reply.data


def _check_calls(task: Task, gold: Answer, answers: dict[str, bytes], found: Audit) -> None:
    """The calls and the steps of a task are those of its program."""
    outcome = evaluate(task.details["program"], answers_reader(answers)) if gold.steps else None
    if outcome is not None and {*outcome.steps} != {*gold.steps}:
        found.wrong("the steps are not those of the program", task)
    asked = [(call.name, call.arguments) for call in task.tools]
    if asked != [call_of(leaf) for leaf in leaves(task.details["program"]) if leaf.text in answers]:
        found.wrong("the calls are not those of the program", task)


def _is_right_by_mistake(task: Task, gold: Answer, answers: dict[str, bytes]) -> bool:
    """Whether the mistaken solver is right; not if a mistake led it to another tool call."""
    try:
        return gold.is_stated(solved(task, answers, name=task.id, mistakes=MISTAKES))
    except Needed:
        return False


def _check(task: Task, gold: Answer, found: Audit) -> None:
    """What can be said of a task without its tools."""
    name = hash(task.question)
    if name in found.seen:
        found.wrong("a question stands twice", task)
    found.seen.add(name)
    if not gold.is_stated(f"Answer: {gold.text}"):
        found.wrong("the right answer is not accepted", task, gold.text)
    others = [key for key in gold.options if key != gold.value]
    if gold.kind == "name" and any(gold.is_stated(gold.options[key][0]) for key in others):
        found.wrong("a second answer is accepted", task)
    is_long = isinstance(gold.value, float) and len(gold.text.strip("-0. %")) >= 4
    if (is_long or gold.kind == "date") and gold.text.removesuffix(" %") in task.question:
        found.wrong("the answer is in the question", task, gold.text)
    needed = {call.name for call in task.tools}
    if not needed <= {*task.details["offered"]}:
        found.wrong("a tool that is needed is not offered", task)
    if len(task.tools) > min(Generated.limits["rounds"], Limits().calls):
        found.wrong("the answer is beyond the limits", task, f"{len(task.tools)} calls")


def _guess(task: Task, gold: Answer, found: Audit, rows: Counter[str]) -> None:
    """Let the blind agents answer."""
    kind = gold.asked
    found.chances[kind].append(gold.chance)
    found.answers[kind][gold.text] += 1
    guesses = found.guessed[kind]
    guesses["tasks"] += 1
    numbers = _NUMBER.findall(task.question)
    keys = [names[0] for names in gold.options.values()]
    said = {
        "nothing": "",
        "cannot be known": "cannot be known",
        "random": guess(task, random.Random(task.id)),  # noqa: S311 - no secret
        "the first number of the question": numbers[0] if numbers else "",
        "the first that is named": keys[0] if keys else "",
        "the last that is named": keys[-1] if keys else "",
    }
    for name, text in said.items():
        is_right = gold.is_stated(f"Answer: {text}")
        guesses[name] += is_right
        if name == "random":
            rows["random"] += is_right
