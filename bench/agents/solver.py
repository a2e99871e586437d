"""The solver: plays the program of a generated task with tools, and errs at a seeded rate.

It needs no model. A misread fact has other values than the tool answered. A blind solver calls no
tool and guesses an answer of the kind that is asked for.
"""

import asyncio
import random
from dataclasses import dataclass

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.declaration import AgentParts, AgentSettingsError, AgentType
from bench.suites.generated.answer import Answer
from bench.suites.generated.facts import answers_reader, call_of
from bench.suites.generated.program import (
    Ambiguous,
    Leaf,
    ProgramError,
    Series,
    Unknown,
    evaluate,
    operations,
)
from bench.task import Task


class Needed(Exception):
    """The program needs a fact that no tool was asked for yet."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf.text)
        self.leaf = leaf


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """`mistakes` is the share of facts that are misread, and of operations that go wrong, after
    which it guesses. `blind`: it guesses in any case. `think_s` is the mean time before each turn.
    """

    mistakes: float = 0.0
    blind: bool = False
    think_s: float = 0.0


class Solver:
    """One call a round, as the program needs it, then the answer."""

    name = "solver"

    def __init__(self, options: SolverOptions, *, seed: int = 0) -> None:
        if not 0 <= options.mistakes <= 1:
            raise AgentSettingsError(f"mistakes is a share from 0 to 1, not {options.mistakes}")
        self._options = options
        self._seed = seed

    async def act(self, episode: Episode) -> Turn:
        task = episode.task
        if "program" not in task.details:
            raise ValueError("the solver plays generated tasks only, which have a program")
        name = f"{self._seed} {task.id} {episode.repeat}"
        if self._options.think_s:
            pause = random.Random(f"{name} {len(episode.history)}")  # noqa: S311 - simulation
            await asyncio.sleep(self._options.think_s * pause.uniform(0.5, 1.5))
        if self._options.blind:
            return Turn(answer=f"Answer: {guess(task, random.Random(name))}")  # noqa: S311
        asked: dict[str, bytes] = episode.memory or {}
        if episode.history:
            reply = episode.history[-1].replies[0]
            if not reply.ok:
                return Turn(answer=f"Answer: {reply.message}")
            episode.history[-1].observed[0] = reply.data.decode()
            asked[next(reversed(asked))] = reply.data
        episode.memory = asked
        try:
            answer = solved(task, asked, name=name, mistakes=self._options.mistakes)
        except Needed as needed:
            asked[needed.leaf.text] = b""
            return Turn(calls=(ToolCall(*call_of(needed.leaf)),))
        return Turn(answer=f"Answer: {answer}")


def solved(task: Task, answers: dict[str, bytes], *, name: str = "", mistakes: float = 0.0) -> str:
    """The answer to a task by the answers of tools, as an agent states it. `mistakes` is the share
    of facts and operations that go wrong, by chance of `name`. Raises `AnswerError`, and `Needed`
    for a fact that no tool was asked for.
    """
    gold = Answer.model_validate_json(task.answer)
    read_answer = answers_reader(answers)

    def read(leaf: Leaf) -> Series:
        if leaf.text not in answers:
            raise Needed(leaf)
        found = read_answer(leaf)
        luck = random.Random(f"{name} {leaf.text}")  # noqa: S311 - no secret
        if luck.random() >= mistakes:
            return found
        return [(day, value * luck.uniform(0.9, 1.1)) for day, value in found]

    try:
        value = evaluate(task.details["program"], read).value
    except Unknown:
        value = None
    except (Ambiguous, ArithmeticError, ProgramError, ValueError):
        return "cannot be computed"
    luck = random.Random(name)  # noqa: S311 - no secret
    if mistakes and luck.random() > (1 - mistakes) ** operations(task.details["program"]):
        return guess(task, luck)
    if isinstance(value, list):
        value = tuple(value)
    elif value is not None and not isinstance(value, bool | int | float | dict):
        value = str(value)
    return gold.model_copy(update={"value": value}).text


def guess(task: Task, luck: random.Random) -> str:
    """A blind guess of the kind that a task asks for."""
    gold = Answer.model_validate_json(task.answer)
    keys = list(gold.options)
    value: object
    match gold.asked:
        case "truth":
            value = luck.random() < 0.5
        case "name":
            value = luck.choice(keys)
        case "list":
            value = tuple(luck.sample(keys, luck.randint(1, len(keys) - 1)))
        case "ranking":
            value = tuple(luck.sample(keys, len(keys)))
        case "table":
            value = {key: round(luck.uniform(-20, 20), 2) for key in keys}
        case "date":
            value = f"{luck.randint(2014, 2026)}-{luck.randint(1, 12):02}-{luck.randint(1, 28):02}"
        case _:  # a number
            value = float(luck.randint(1, 100))
    return gold.model_copy(update={"value": value}).text


def _make(options: SolverOptions, parts: AgentParts) -> Solver:
    return Solver(options, seed=parts.seed)


SOLVER = AgentType(
    "solver", "plays the programs of generated tasks", _make, SolverOptions, is_simulated=True
)
