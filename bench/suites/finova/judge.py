"""The judge of Finova's answers: rules, in our reading (`is_right`) and in the published one.

All tasks but reasoning are decided at once. A question of reasoning may leave comparisons of
formulas to `worker`, which decides on them in a process.
"""

import re
import unicodedata
from collections import Counter
from contextlib import AsyncExitStack
from typing import Self

from anyio import to_thread

from bench.record import EpisodeRecord, Judgement, storable
from bench.suites.finova.extraction import Item, extracted, is_slot, plain, read_list
from bench.suites.finova.mathematics import Verdict, equal_at_once
from bench.suites.finova.published import published
from bench.suites.finova.worker import Mathematics
from bench.suites.suite import SuiteError

_Slot = tuple[str, str]

_PARTS = re.compile("[;；]")
_PLACE = re.compile(r"([①-⑨])|\(([1-9])\)")
_COMMA = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3}(?!\d))++|(?<![\\{])[,、]")
"""A number with thousands separators, or another comma."""
_LETTERS = re.compile(r"[A-E](?:[\s;,、和与及&.。]*[A-E])*+[\s.。)]*", re.IGNORECASE)
_OPTION = re.compile(
    r"\W*+(?:(?:故|因此|所以|应该?|本题|正确)?(?:选项|选择|选)(?:为|是)?"
    r"|(?:the correct )?option(?: is)?)?"
    r"\W*+([A-E])(?:选项|项)?(?:正确|is correct)?(?:\W*+|\s*+is correct\W*+|\s*+[.:、)][^;]*)",
    re.IGNORECASE,
)


def is_right(task: str, gold: str, extracted: str) -> Verdict:
    """Whether the answer is right, or on which comparisons of formulas that depends.

    - `intent_recognition`: both lists have the same items, in any order.
    - `slot_filling`: both are empty, or each predicted slot has the type of a gold one and its
      content, or content around it. A gold slot that is not predicted does no harm. Further fields
      of a slot do not count; a list with an item that is no slot is wrong.
    - `tool_planning`: every gold tool is predicted.
    - `compliance`, `expression`: the same word.
    - `reasoning`: the same letters, in any order; or as many values, each mathematically equal.
    """
    match task:
        case "intent_recognition":
            predicted = names_in(extracted)
            return predicted is not None and Counter(predicted) == Counter(names_in(gold) or ())
        case "tool_planning":
            return set(names_in(extracted) or ()) >= set(names_in(gold) or ())
        case "slot_filling":
            return _slots_match(slots_in(gold) or [], slots_in(extracted) if extracted else [])
        case "compliance" | "expression":
            return extracted == gold
        case _:
            return _is_answer(gold.strip(), extracted.strip())


def _slots_match(gold: list[_Slot], predicted: list[_Slot] | None) -> bool:
    if not gold or not predicted:
        return predicted is not None and not gold and not predicted
    return all(
        any(type_ == of_gold and content in text for of_gold, content in gold)
        for type_, text in predicted
    )


def slots_in(answer: str) -> list[_Slot] | None:
    """Type and content of each slot; None if an item is no slot."""
    items = _items(answer)
    if items is None or not all(map(is_slot, items)):
        return None
    return [(item["type"], item["content"]) for item in items if isinstance(item, dict)]


def names_in(answer: str) -> list[str] | None:
    """The texts of a list; None if an item is no text."""
    items = _items(answer)
    if items is None:
        return None
    names = [item for item in items if isinstance(item, str)]
    return names if len(names) == len(items) else None


def _items(answer: str) -> list[Item] | None:
    """The items of a list with one form of each character: a full-width digit is one of ASCII."""
    items = read_list(answer)
    return None if items is None else [_one_form(item) for item in items]


def _one_form(item: Item) -> Item:
    if isinstance(item, dict):
        return {key: unicodedata.normalize("NFKC", value).strip() for key, value in item.items()}
    return None if item is None else unicodedata.normalize("NFKC", item).strip()


def _is_answer(gold: str, given: str) -> Verdict:
    given = _counting(gold, given)
    if letters := _letters_of_gold(gold):
        return letters == _letters(given)
    golds, lines = _PARTS.split(gold), given.split("\n")
    givens = lines if len(lines) > 1 else _parts(given, len(golds))
    if len(golds) != len(givens):
        return False
    pairs = tuple(zip(golds, givens, strict=True))
    known = [equal_at_once(*pair) for pair in pairs]
    if False in known:
        return False
    open_ones = tuple(pair for pair, equal in zip(pairs, known, strict=True) if equal is None)
    return open_ones or True


def _counting(gold: str, given: str) -> str:
    """What counts of an answer that several boxes give, a line each: all, if they are as many as
    the gold answer has values, else the last one.
    """
    lines = given.split("\n")
    expected = len(_letters_of_gold(gold)) or len(_PARTS.split(gold))
    return given if len(lines) == expected and ";" not in given else lines[-1]


def _letters_of_gold(gold: str) -> set[str]:
    return _letters(gold) if _LETTERS.fullmatch(gold) else set()


def _parts(given: str, expected: int) -> list[str]:
    """The values that an answer gives: what ①, ② or (1), (2) count, else what semicolons separate.
    Commas separate values if several are expected. One that may separate thousands does not.
    """
    if expected > 1:
        marks = list(_PLACE.finditer(given))
        places = [int(mark[2]) if mark[2] else ord(mark[1]) - ord("①") + 1 for mark in marks]
        if places == list(range(1, expected + 1)) and marks[0].start() == 0:
            ends = [*(mark.start() for mark in marks[1:]), len(given)]
            return [
                given[mark.end() : end].strip(" ;,、")
                for mark, end in zip(marks, ends, strict=True)
            ]
    parts = _PARTS.split(given)
    if expected > 1 == len(parts):
        return _COMMA.sub(lambda at: ";" if len(at[0]) == 1 else at[0], given).split(";")
    return parts


def _letters(text: str) -> set[str]:
    """The options that a text names: letters only, or one option with its words."""
    text = plain(text).strip(" *$()\"'“”")
    if _LETTERS.fullmatch(text):
        return set(re.findall("[A-E]", text.upper()))
    parts = [_OPTION.fullmatch(part.strip()) for part in _PARTS.split(text)]
    return {part[1].upper() for part in parts if part} if all(parts) else set()


EXTRACTED_CHARS = 2_000
"""The longest extracted answer in a record."""

LONG_CHARS = 5_000
"""A longer text is read in a thread, so that it does not hold the event loop."""


class FinovaJudge:
    """Judges answers while its context is open. Serves many episodes at once."""

    name = "rules"

    def __init__(self) -> None:
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Raises `SuiteError` without math-verify."""
        self._mathematics = await self._open.enter_async_context(Mathematics.open())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """Raises `SuiteError` if no process can start, or for an answer to no task."""
        if not record.question:
            raise SuiteError(f"the dataset has no task {record.id}")
        if len(record.execution_result) > LONG_CHARS:
            answer, verdicts = await to_thread.run_sync(_read, record)
        else:
            answer, verdicts = _read(record)
        scores = {
            reading: float(await self._mathematics.holds(verdict))
            for reading, verdict in verdicts.items()
        }
        return Judgement(
            self.name,
            record.category,
            [scores["accuracy"]],
            by_metric={reading: [score] for reading, score in scores.items()},
            extracted=storable(answer[:EXTRACTED_CHARS]),
        )


def _read(record: EpisodeRecord) -> tuple[str, dict[str, Verdict]]:
    """The extracted answer, and whether it is right by both readings. In ours, an empty answer and
    an episode that ended with an error are wrong; the published rule takes an empty text for an
    empty list of slots.
    """
    kind, gold, text = record.category, record.ground_truth, record.execution_result
    answer = extracted(kind, text)
    if kind == "reasoning":
        answer = _counting(gold.strip(), answer.strip())
    return answer, {
        "accuracy": bool(text.strip()) and record.error is None and is_right(kind, gold, answer),
        "accuracy_published": published(kind, gold, text),
    }
