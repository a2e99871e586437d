"""Finport's suites as tasks of Inspect AI, each by its name: `finport_inspect/generated`."""

from collections.abc import Callable, Mapping
from typing import Final

import inspect_ai
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample

from bench.suites.generated.answer import Answer
from finport import Suite, SuiteError, Task
from finport_inspect.choice import GENERATED, Choice, suite_of
from finport_inspect.playing import mcp_tools, native_tools
from finport_inspect.reaching import Reaching
from finport_inspect.scoring import finport_reward

NAMES: Final = (
    *(GENERATED, "fintoolbench", "fintrace", "fintrace-sample"),
    *("finova", "finova-sample", "starter", "investorbench"),
)

Levels = str | int | list[str | int]


def _made(name: str) -> Callable[..., inspect_ai.Task]:
    def task(
        limit: int | None = None,
        dataset: str | None = None,
        seed: int | None = None,
        difficulty: Levels | None = None,
        language: str | None = None,
        url: str | None = None,
        key_variable: str | None = None,
        tools: str | None = None,
        max_rows: int | None = None,
    ) -> inspect_ai.Task:
        given = difficulty if isinstance(difficulty, list) else str(difficulty or "").split(",")
        levels = tuple(level for level in map(str, given) if level)
        try:
            suite = suite_of(Choice(name, dataset, limit, seed, levels, language))
            reaching = Reaching(suite, url, key_variable, max_rows)
            solve = _solvers(suite)[tools or next(iter(_solvers(suite)))]
        except SuiteError as error:
            raise PrerequisiteError(str(error)) from None
        except KeyError:
            known = " or ".join(_solvers(suite))
            text = f"{name}: tools must be {known}, not {tools!r}"
            raise PrerequisiteError(text) from None
        return inspect_ai.Task(
            dataset=MemoryDataset([sample_of(suite, one) for one in suite.tasks], name=name),
            solver=solve(suite, reaching),
            scorer=finport_reward(
                *(name, dataset, limit, seed, ",".join(levels) or None, language)
            ),
            description=suite.title,
        )

    task.__name__ = name.replace("-", "_")
    task.__doc__ = f"The suite `{name}` of Finport."
    return inspect_ai.task(task)


def _solvers(suite: Suite) -> Mapping[str, Callable[..., inspect_ai.solver.Solver]]:
    """By the value of `tools`, the default first. A session is opened by us, so its suite has
    native tools only.
    """
    if suite.environment(suite.tasks[0]) is not None:
        return {"native": native_tools}
    return {"mcp": mcp_tools, "native": native_tools}


def sample_of(suite: Suite, task: Task) -> Sample:
    offered = suite.offered(task) or [call.name for call in task.tools]
    is_proved = suite.name == GENERATED
    return Sample(
        id=task.id,
        input=task.question,
        target=Answer.model_validate_json(task.answer).text if is_proved else task.answer,
        metadata={
            "category": task.category,
            "difficulty": task.difficulty,
            "language": task.language,
            "source_dataset": task.source_dataset,
            "tools": list(dict.fromkeys(offered)),
        },
    )


TASKS = {name.replace("-", "_"): _made(name) for name in NAMES}
