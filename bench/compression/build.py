"""The set of cases, built from a seed. A tool's or asset's cases do not depend on the others."""

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bench.compression import documents, tables
from bench.compression.baselines import Plain
from bench.compression.case import Answer, Case, Part, part_of
from bench.compression.kept import Rows
from bench.compression.sources import ASSETS, Tools, asset_answers
from bench.compression.tables import Records, parsed
from gateway.compress.budget import Budget

BUDGETS = (200, 500, 1_000, 4_000)
"""In tokens."""

LONG = 30
"""A table of so many rows gets two cases of each kind."""

SHORT_CASES = 4
ARRAY_CASES = 5
FIELD_CASES = 6
TEXT_CASES = 7


async def build(
    seed: int,
    part: Part,
    investorbench: Path | None = None,
    most: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Case]:
    """The cases of a part, at most `most`. `tell` is called with the progress.

    Without the folder `investorbench` there are only cases over tools. Raises `SourceError`.
    """
    found = list[Case]()
    async with Tools.open(seed) as tools:
        groups = _groups(tools, investorbench, seed, part)
        for done, group in enumerate(groups):
            if done % 20 == 0:
                tell(f"building: {done} of {len(groups)} tools and assets, {len(found)} cases")
            async for answer in _answers(tools, group, investorbench, seed):
                found.extend(case for case in _cases(answer, seed) if _can_be_kept(case))
            if most is not None and len(found) >= most:
                return found[:most]
    return found


def _groups(tools: Tools, folder: Path | None, seed: int, part: Part) -> list[str]:
    """Tools and assets of the part, those of different kinds in turns."""
    assets = [f"investorbench/{asset}" for asset in ASSETS] if folder else []
    kinds = [[g for g in names if part_of(g, seed) == part] for names in (assets, *tools.names())]
    return [group for turn in zip_longest(*kinds) for group in turn if group]


async def _answers(
    tools: Tools, group: str, folder: Path | None, seed: int
) -> AsyncIterator[Answer]:
    if folder is not None and group.startswith("investorbench/"):
        found: Sequence[Answer] = list(asset_answers(folder, group.partition("/")[2], seed))
    else:
        found = await tools.answers(group)
    for answer in found:
        if not _fits_anyway(answer):
            yield answer


def _fits_anyway(answer: Answer) -> bool:
    """Whether no shortening is needed even for the least budget."""
    plain, budget = Plain(answer), Budget(min(BUDGETS))
    return budget.fits("\n".join(plain.rows) if plain.rows else plain.text)


def _can_be_kept(case: Case) -> bool:
    """Whether the needed cells alone leave a quarter of the least budget."""
    if not isinstance(case.needed, Rows):
        return True
    lines = (",".join((row.keys[0], *row.cells)) for row in case.needed.rows)
    return Budget(min(BUDGETS) * 3 // 4).fits("\n".join(lines))


def _cases(answer: Answer, seed: int) -> Iterator[Case]:
    value: Any = parsed(answer.entry.data)
    if answer.form == "text":
        yield from documents.text_cases(answer, value, TEXT_CASES, seed)
        return
    in_table = answer.form == "table"
    rows = value if in_table else documents.records_in(value)
    if rows:
        records = Records.of(answer, rows, in_table=in_table)
        yield from tables.cases(records, _kinds(records, seed), seed)
    if not in_table:
        count = 1 if rows else FIELD_CASES
        yield from documents.cases(answer, value, count, seed)


def _kinds(records: Records, seed: int) -> list[str]:
    kinds = tables.kinds_for(records)
    if not kinds:
        return []
    rng = random.Random(f"{seed} {records.answer.id} kinds")  # noqa: S311 - a reproducible draw
    if records.in_table and len(records.records) >= LONG:
        return kinds * 2 + kinds[:1]
    if not records.in_table:
        rest = [kind for kind in kinds if kind != "item_field"]
        return ["item_field"] * 2 + rng.sample(rest, min(ARRAY_CASES - 2, len(rest)))
    cells = [kind for kind in kinds if kind == "code_cell"]
    rest = [kind for kind in kinds if kind != "code_cell"]
    return cells * 3 + rng.sample(rest, min(SHORT_CASES - len(cells), len(rest)))
