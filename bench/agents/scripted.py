"""The scripted agent: plays the labelled tools of a task, and errs at seeded rates.

It needs no model. Its actions depend only on seed, task, repeat and round, so a run can be
repeated. Its thinking time is simulated.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.agents.agent import Episode, ToolCall, Turn
from bench.agents.declaration import AgentParts, AgentType
from bench.task import Task, completed


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Shares of episodes in which the agent errs, one share for each kind of error."""

    no_call: float = 0.10
    wrong_tool: float = 0.08
    bad_arguments: float = 0.12


class ScriptedAgent:
    """One call a round in the labelled order, then an answer."""

    name = "scripted"

    def __init__(
        self,
        tools: Sequence[str],
        *,
        seed: int = 0,
        rates: ErrorRates | None = None,
        think_s: float = 0.0,
    ) -> None:
        """`tools` are the names for wrong calls; `think_s` is the mean time before each turn."""
        self._tools = tools
        self._seed = seed
        self._rates = rates or ErrorRates()
        self._think_s = think_s

    async def act(self, episode: Episode) -> Turn:
        task, repeat, history = episode.task, episode.repeat, episode.history
        if self._think_s:
            pause = random.Random(f"{self._seed} {task.id} {repeat} {len(history)}")  # noqa: S311
            await asyncio.sleep(self._think_s * pause.uniform(0.5, 1.5))
        if episode.memory is None:
            episode.memory = self._script(task, repeat)
        calls = episode.memory
        if len(history) < len(calls):
            return Turn(calls=(calls[len(history)],))
        found = sum([reply.error is None for made in history for reply in made.replies])
        return Turn(answer=f"{found} of {len(calls)} calls answered")

    def _script(self, task: Task, repeat: int) -> list[ToolCall]:
        rng = random.Random(f"{self._seed} {task.id} {repeat}")  # noqa: S311 - simulation
        calls = [ToolCall(call.name, completed(call.name, call.arguments)) for call in task.tools]
        if not calls:
            return []
        place, luck = rng.randrange(len(calls)), rng.random()
        for rate, err in (
            (self._rates.no_call, None),
            (self._rates.wrong_tool, self._wrong_tool),
            (self._rates.bad_arguments, self._bad_arguments),
        ):
            if luck < rate:
                if err is None:
                    return []
                calls[place] = err(calls[place], rng)
                return calls
            luck -= rate
        return calls

    def _wrong_tool(self, call: ToolCall, rng: random.Random) -> ToolCall:
        """Another tool, or a name that does not exist."""
        name = rng.choice(self._tools) if rng.random() < 0.5 else f"{call.tool}_v2"
        return ToolCall(name, call.arguments)

    def _bad_arguments(self, call: ToolCall, rng: random.Random) -> ToolCall:
        """The call with an argument dropped, of the wrong type, or unknown."""
        arguments = dict(call.arguments)
        name = rng.choice(sorted(arguments)) if arguments else "symbol"
        match rng.randrange(3) if arguments else 2:
            case 0:
                del arguments[name]
            case 1:
                arguments[name] = ["a", "list"]
            case _:
                arguments[f"{name}_name"] = "x"
        return ToolCall(call.tool, arguments)


@dataclass(frozen=True, slots=True)
class ScriptedOptions:
    """`think_s` is the mean time before each turn."""

    think_s: float = 0.0
    error_rates: ErrorRates = field(default_factory=ErrorRates)


def _make(options: ScriptedOptions, parts: AgentParts) -> ScriptedAgent:
    names = [manifest.name for manifest in parts.catalog]
    think_s = 0.0 if parts.is_forecast else options.think_s
    return ScriptedAgent(names, seed=parts.seed, rates=options.error_rates, think_s=think_s)


SCRIPTED = AgentType(
    "scripted",
    "plays the labelled tools of a task",
    _make,
    ScriptedOptions,
    reads_answers=False,
    is_simulated=True,
)
