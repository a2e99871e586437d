r"""The published rule: how the authors' public scorer reads and judges a text.

This is our own implementation of their rule. It differs from theirs where theirs has no bounds:

- A text is read up to `READ` characters, from its end. Each of its patterns is searched for in
  linear time, with the same result.
- A list in Python's notation is read up to `LONGEST_LIST` characters; a longer one is wrong.
- An answer of over `LONGEST` characters is equal to another only as a text.
- What the scorer leaves to sympy is a comparison of formulas here too, by `mathematics`: on ASCII
  text with figures, without Python's own notation (`**` for a power, `^` for an exclusive or), and
  without names for numbers (`E`).
- Where the scorer would stop with an error, such as a JSON number for slots, the answer is wrong.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Sequence
from math import isclose
from typing import Any

from bench.suites.finova.extraction import READ
from bench.suites.finova.mathematics import RELATIVE, Verdict

LONGEST_LIST = 20_000
LONGEST = 1_000

_OPEN, _CLOSE = "<answer>", "</answer>"
_TOOLS, _TOOLS_END = "【工具S】", "【工具E】"
_BLANK_JSON = re.compile(r"json\s*+\[")
_EXAMPLE = re.compile(r"<example>\n([^\n]++)\n</example>")
_ODD_BOX = re.compile(r"boxed\{\\text\{([.*])\}\}")
_MARKED_WORDS = tuple(
    re.compile(pattern)
    for pattern in (
        *(r"boxed\{\\text\{([是否])\}\}", r"boxed\{([是否])\}"),
        *(r"<answer>([否错])</answer>", r"<answer>([是对])</answer>"),
        *(r"\*\*([是对])\*\*", r"\*\*([否错])\*\*"),
        *(r"\n([是对])", r"\n([否错])"),
    )
)
_ANY_WORD = re.compile("[是否对错]")


def published(task: str, gold: str, text: str) -> Verdict:
    """Whether the text is right by the published rule, or on which formulas that depends."""
    answer = published_answer(task, text)
    match task:
        case "intent_recognition":
            return _sorted_alike(_literal(gold), _literal(answer))
        case "tool_planning":
            return _is_superset(_literal(answer), _literal(gold))
        case "slot_filling":
            return _slots_match(gold, answer)
        case "reasoning":
            return _is_answer(gold, answer)
        case _:
            return answer == gold


def published_answer(task: str, text: str) -> str:
    """What the published rule takes for the answer."""
    text = text[-READ:]
    match task:
        case "intent_recognition":
            return _first_found(_lists(text)) if text else ""
        case "tool_planning" | "slot_filling":
            return _first_found(_json(text))
        case "reasoning":
            return _first_found(_boxes(text))
        case _:
            return _word(text)


def _first_found(found: Iterable[str]) -> str:
    return next((answer for answer in found if answer), "")


def _word(text: str) -> str:
    """The first marked word, by the kind of mark; else the first of 是, 否, 对 and 错 anywhere."""
    for pattern in (*_MARKED_WORDS, _ANY_WORD):
        if match := pattern.search(text):
            return match[match.lastindex or 0]
    return ""


def _json(text: str) -> Iterable[str]:
    """What each pattern for slots and tools finds, in the order of the patterns."""
    last, thought = text.rfind("]"), text.find("</think>")
    yield _list_in_tag(text)
    yield _to_last(text, text.find("json["), last)
    yield _between(text, _OPEN + _TOOLS, _TOOLS_END)
    yield _between(text[thought:], _TOOLS, _TOOLS_END) if thought >= 0 else ""
    yield _between(text, _TOOLS, _TOOLS_END)
    yield example[1] if (example := _EXAMPLE.search(text)) else ""
    for start in (thought, 0):
        blank = _BLANK_JSON.search(text, start) if start >= 0 else None
        yield _to_last(text, blank.end() - 1, last) if blank else ""
    yield _to_last(text, text.find("[", thought), last) if thought >= 0 else ""
    yield _tag(text)
    yield _to_last(text, text.find("["), last)


def _boxes(text: str) -> Iterable[str]:
    """What each pattern for figures and options finds, in the order of the patterns."""
    yield _boxed_in_tag(text, "boxed{{", "}}")
    yield _boxed_in_tag(text, "boxed{", "}")
    yield _tag(text)
    yield _boxed(text, "boxed{{", "}}")
    yield _boxed(text, "boxed{", "}")


def _lists(text: str) -> Iterable[str]:
    """What each pattern for intents finds, in the order of the patterns."""
    fence, thought = text.find("```"), text.find("</think>")
    yield _last_in_a_line(text, "[", "]", fence + 3, len(text), whole=True) if fence >= 0 else ""
    yield odd[1] if (odd := _ODD_BOX.search(text)) else ""
    yield _boxed_in_tag(text, "boxed{{", "}}")
    yield _boxed_in_tag(text, "boxed{", "}")
    start = text.find(_OPEN + "[")
    end = text.find("]" + _CLOSE, start + len(_OPEN) + 2) if start >= 0 else -1
    yield text[start + len(_OPEN) : end + 1] if end >= 0 else ""
    yield _tag(text)
    yield _boxed(text, "boxed{{", "}}")
    yield _boxed(text, "boxed{", "}")
    yield _to_last(text, text.find("[", thought), text.rfind("]")) if thought >= 0 else ""
    yield "[]"


def _to_last(text: str, start: int, last: int) -> str:
    """From the bracket at or after `start` to the one at `last`."""
    bracket = text.find("[", start) if start >= 0 else -1
    return text[bracket : last + 1] if 0 <= bracket < last else ""


def _between(text: str, before: str, after: str) -> str:
    start = text.find(before)
    end = text.find(after, start + len(before)) if start >= 0 else -1
    return text[start + len(before) : end] if end >= 0 else ""


def _tag(text: str) -> str:
    """From the first opening tag to the last closing one."""
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    return text[start + len(_OPEN) : end] if 0 <= start < end else ""


def _list_in_tag(text: str) -> str:
    """The first bracket in a tag, up to the first that closes."""
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    bracket = text.find("[", start) if start >= 0 else -1
    closing = text.find("]", bracket) if bracket >= 0 else -1
    return text[bracket : closing + 1] if 0 <= closing < end else ""


def _boxed_in_tag(text: str, before: str, after: str) -> str:
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    return _last_in_a_line(text, before, after, start + len(_OPEN), end) if start >= 0 else ""


def _last_in_a_line(
    text: str, before: str, after: str, start: int, end: int, *, whole: bool = False
) -> str:
    """In the last line that has both marks, from the last `before` to the last `after`."""
    while start < end:
        line = max(text.rfind("\n", start, end) + 1, start)
        closing = text.rfind(after, line, end)
        opening = text.rfind(before, line, closing) if closing >= 0 else -1
        if opening >= 0:
            return text[opening if whole else opening + len(before) : closing + whole]
        end = line - 1
    return ""


def _boxed(text: str, before: str, after: str) -> str:
    """In the first line that has both marks, from the first `before` to the last `after`."""
    at = text.find(before)
    while at >= 0:
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        closing = text.rfind(after, at + len(before), line_end)
        if closing >= 0:
            return text[at + len(before) : closing]
        at = text.find(before, line_end)
    return ""


def _literal(text: str) -> Any:
    """What Python's literal is; None for anything else."""
    if len(text) > LONGEST_LIST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _sorted_alike(gold: Any, given: Any) -> bool:
    try:
        return bool(sorted(gold) == sorted(given))
    except TypeError:
        return False


def _is_superset(given: Any, gold: Any) -> bool:
    try:
        return set(given) >= set(gold)
    except TypeError:
        return False


def _slots_match(gold_text: str, text: str) -> bool:
    try:
        gold, given = (json.loads(part) if part else [] for part in (gold_text, text))
    except (ValueError, RecursionError):
        return False
    if not isinstance(given, list | dict | str):
        return False
    if not gold or not given:
        return not gold and not given
    return all(any(_is_slot(one, other) for other in gold) for one in given)


def _is_slot(given: Any, gold: Any) -> bool:
    try:
        return given["type"] == gold["type"] and (
            given["content"] == gold["content"] or gold["content"] in given["content"]
        )
    except (KeyError, TypeError, IndexError):
        return False


def _is_answer(gold: str, given: str) -> Verdict:
    if len(gold) == 1:
        return gold == given
    if ";" in gold:
        return _equal_parts(gold.split(";"), given.split(";"))
    if re.search("[A-E]", gold):
        return set(gold.split(";")) == set(given.split(";"))
    return _equal(gold, given)


def _equal_parts(golds: Sequence[str], givens: Sequence[str]) -> Verdict:
    if len(golds) != len(givens):
        return False
    pairs: tuple[tuple[str, str], ...] = ()
    for gold, given in zip(golds, givens, strict=True):
        verdict = _equal(gold, given)
        if verdict is False:
            return False
        if not isinstance(verdict, bool):
            pairs += verdict
    return pairs or True


_DOLLARS = re.compile(r"\$\d+")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\\?%")
_EQUATION = re.compile(r"[^\n]*=\s?")
_INTEGERS = re.compile(r"\b\d+\b")
_UNITS = re.compile(
    "(?:degree|cm|centimeter|meter|mile|second|minute|hour|week|month|year|foot|feet|inch|yard"
    r"|p.m.|PM)(?:es)?s? *(?:\^[0-9]+)?"
)
_STYLED = re.compile(r"\\(?:text|mathrm|mathcal|textbf|textit)\{(.+?)\}")
_UNREAD = re.compile(r"(?<=[A-Za-z])\.|,(?!\d{3})")
_REMOVED = re.compile(r"\\!|\\?\$|\\?%|\^\{\\circ\}|\^ *\\circ|\\left|\\right")


def _equal(gold: str, given: str) -> Verdict:
    """Equal as texts; as numbers, also where one is a hundred times the other; or as formulas."""
    if max(len(gold), len(given)) > LONGEST:
        return gold.strip().lower() == given.strip().lower()
    one, other = (_normal(_number_in(text)) for text in (gold, given))
    if one.strip().lower() == other.strip().lower():
        return True
    first, second = _float(one), _float(other)
    if first is not None and second is not None:
        reached = (second / 100, second, second * 100)
        return any(isclose(value, first, rel_tol=RELATIVE) for value in reached)
    if not one:
        return False
    bracketed = one[:1] + one[-1:] in ("[]", "()")
    if _without_braces(one, bracketed) == _without_braces(other, bracketed):
        return True
    for brackets in ("()", "[]"):
        if one[:1] + one[-1:] == other[:1] + other[-1:] == brackets:
            one, other = one[1:-1], other[1:-1]
            break
    if "," in one and "," in other:
        return _equal_parts(one.split(","), other.split(","))
    return _equal_formulas(one, other)


def _equal_formulas(one: str, other: str) -> Verdict:
    """Their parser reads a formula as far as it goes (`_readable`). It reads no list, no Chinese
    and no sign of approximation.
    """
    one, other = one.strip(), other.strip()
    if "[" in (one[:1], other[:1]) and (one, other) == (_readable(one), _readable(other)):
        return False
    one, other = _readable(one), _readable(other)
    if one == other != "":
        return True
    if not (one + other).isascii() or "\\approx" in one + other:
        return False
    return ((one.strip("[]"), other.strip("[]")),)


def _readable(text: str) -> str:
    """The text up to a brace that nothing opens, a letter's point, or a comma between numbers."""
    end = _UNREAD.search(text)
    text = text[: end.start()] if end else text
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return text[:at]
    return text


def _number_in(text: str) -> str:
    """The first of: dollars without the sign, percent without the sign, roots as LaTeX, what
    follows the last equals sign, and the text's only integer.
    """
    if _DOLLARS.match(text):
        return text[1:]
    if match := _PERCENT.fullmatch(text):
        return match[1]
    if re.search(r"√\d", text):
        return re.sub(r"√(\d+)", r"\\sqrt{\1}", text)
    if "=" in text:
        return _EQUATION.sub("", text)
    integers = _INTEGERS.findall(text)
    return str(integers[0]) if len(integers) == 1 else text


def _normal(text: str) -> str:
    """Without units, signs of percent and currency, blanks and braces; whole numbers as such."""
    text = re.sub(r"\s*\\text\s*\{\s*(?:or|and)\s*\}\s*", ",", text)
    before, mark, _ = text.partition("\\text")
    if mark and text.count("\\text") == 1 and before not in ("", "("):
        text = before
    elif "\\mbox{" in text:
        text = text.partition("\\mbox{")[0]
    text = _REMOVED.sub("", _STYLED.sub(r"\1", text))
    text = text.replace(" or ", ",").replace(" and ", ",")
    for word, power in (("million", 6), ("billion", 9), ("trillion", 12)):
        text = text.replace(word, f"*10^{power}")
    text = _UNITS.sub("", text)
    if not re.search("(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day", text):
        text = re.sub("days?", "", text)
    if text[:1] + text[-1:] == "{}":
        text = text[1:-1]
    text = re.sub(r"\\frac\s*(\w)\s*(\w)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"(\d) +(?=\d)", r"\1+", text)
    text = re.sub(r"(\d+) *\\frac\{(\d+)\}\{(\d+)\}", r"\1 + \2/\3", text).replace(" ", "")
    value = _float(re.sub(r",(?=\d{3}(?!\d))", "", text))
    return str(int(value)) if value is not None and _is_whole(value) else text


def _is_whole(value: float) -> bool:
    return abs(value) < 1e300 and abs(value - round(value)) <= 1e-7


def _float(text: str) -> float | None:
    try:
        return float(text.replace("{,}", "").replace(",", ""))
    except ValueError:
        return None


def _without_braces(text: str, bracketed: bool) -> str:
    text = text.strip("[]()") if bracketed else text
    return text.translate(dict.fromkeys(map(ord, "{}()")))
