r"""The answer that a model's text gives, in our reading; `published` has the authors' own.

An answer is looked for in the last `\boxed{}`, the last `<answer>` tag, a code block, bold type,
and the plain text, in that order. Lists of strings and of flat objects are read as models write
them: as JSON or as Python, with single, double or Chinese quotation marks, with items separated by
、, and with a comma after the last item. Any text takes linear time, and none raises.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

Item = str | dict[str, str] | None
"""A text, the texts of an object by their keys, or None for anything else."""

_TOKEN = re.compile(
    r"""\s*+(?:
      (?P<mark>[\[\]{},:、])
    | "(?P<double>(?:[^"\\]|\\.)*+)" | '(?P<single>(?:[^'\\]|\\.)*+)'
    | “(?P<curved>[^“”]*+)” | ‘(?P<curved_single>[^‘’]*+)’
    | (?P<literal>(?:-?\d[\d.]*+(?:[eE][+-]?\d++)?|[Tt]rue|[Ff]alse|null|None)(?=\s*+[\]},、]))
    | (?P<bare>[^\s\[\]{},:、"'“”‘’][^\[\]{},:"'“”‘’\n]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"[\[\]]")
_OBJECT = re.compile(r"\{[^{}]*+\}")
_QUOTED = ("double", "single", "curved", "curved_single")


def read_list(text: str, *, bare: bool = False) -> list[Item] | None:
    """The list that the whole text is; None if it is none. With `bare`, items need no quotes, and
    one without quotes ends at a 、.
    """
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_loosely(text, bare)
    return [_item(item) for item in items] if isinstance(items, list) else None


def is_slot(item: Item) -> bool:
    """Whether an item has the fields of a slot."""
    return isinstance(item, dict) and {"type", "content"} <= item.keys()


def _item(read: Any) -> Item:
    if isinstance(read, dict):
        return {key: value for key, value in read.items() if isinstance(value, str)}
    return read if isinstance(read, str) else None


def _read_loosely(text: str, bare: bool) -> list[Item] | None:
    """A list of texts and of flat objects, as Python or a human writes it."""
    try:
        items = orjson.loads(_as_json(text, bare))
    except ValueError:
        return None
    if not isinstance(items, list) or not all(_is_flat(item) for item in items):
        return None
    return [_item(item) for item in items]


def _is_flat(item: Any) -> bool:
    parts = item.values() if isinstance(item, dict) else (item,)
    return all(part is None or isinstance(part, str) for part in parts)


def lists_in(text: str) -> Iterator[str]:
    """The parts of a text from a bracket to the one that closes it, the last part first. A part
    inside another one is left out.
    """
    open_at: list[int] = []
    spans: list[tuple[int, int]] = []
    for match in _BRACKET.finditer(text):
        if match[0] == "[":
            open_at.append(match.start())
        elif open_at:
            start = open_at.pop()
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, match.end()))
    return (text[start:end] for start, end in reversed(spans))


def objects_in(text: str) -> list[Item]:
    """The flat objects of a text, in their order; None for what begins as an object and is none."""
    found = [read_list(f"[{part}]") for part in _OBJECT.findall(text)]
    rest: list[Item] = [None] * ("{" in _OBJECT.sub("", text))
    return [item for items in found for item in items or (None,)] + rest


def _as_json(text: str, bare: bool) -> str:
    """The text with each token as JSON has it, and without a comma after the last item. Numbers and
    truth values become null. Raises `ValueError` for what is no token.
    """
    tokens: list[str] = []
    at, end, braces = 0, len(text.rstrip()), 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or (match["bare"] is not None and not bare):
            raise ValueError
        at = match.end()
        if mark := match["mark"]:
            braces += {"{": 1, "}": -1}.get(mark, 0)
            if mark in "]}" and tokens[-1:] == [","] and tokens[-2:-1] not in ([], ["["], ["{"]):
                tokens.pop()
            tokens.append("," if mark == "、" else mark)
        elif match["literal"] is not None:
            tokens.append("null")
        elif match["bare"] is not None:
            parts = match["bare"].split("、") if braces == 0 else [match["bare"]]
            tokens.append(",".join(json.dumps(part.strip()) for part in parts))
        else:
            content = next(match[quotes] for quotes in _QUOTED if match[quotes] is not None)
            tokens.append(json.dumps(_unescaped(content)))
    return "".join(tokens)


def _unescaped(content: str) -> str:
    if "\\" not in content:
        return content
    double = re.sub(r'(\\.)|"', lambda m: m[1] or '\\"', content.replace("\\'", "'"))
    try:
        read: Any = orjson.loads(f'"{double}"')
    except orjson.JSONDecodeError:
        return content
    return str(read)


KINDS: Final = (
    *("intent_recognition", "slot_filling", "tool_planning"),
    *("expression", "compliance", "reasoning"),
)
"""The six kinds of tasks, by the names of their files."""

READ = 2**20
"""At most this many characters are read of a text, from its end."""

LONGEST_PLAIN = 100
"""Plain text without any mark is an answer to a question of reasoning only up to this length."""

_FULL_WIDTH = str.maketrans(
    {"　": " "} | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
)
_HAS_FULL_WIDTH = re.compile("[！-～　]")

_BRACE = re.compile(r"boxed\s*+\{|\\[{}]|[{}]")
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$*&]|\([1-9]\)|[①-⑨]|[1-9][.)](?!\d)|([,;、和])|\\[\\\[\]()])*+\\?+"
)
_STYLE = re.compile(
    r"\\(?:text(?:bf|it|rm|normal)?|math(?:rm|bf|it|sf|tt)|mbox|bm|boldsymbol|operatorname)\s*+"
    r"\{([^{}]*+)\}"
)
_BOX = re.compile(r"boxed\s*+\{")
_INTENT = re.compile(r"[^\W\d_]++-[^\W\d_]++")
_DASH = re.compile(r"(?<=\w)[^\S\n]*+[-‐‑–—−][^\S\n]*+(?=\w)")

_FENCED = re.compile(r"```[A-Za-z]*+")
_BOLD = re.compile(r"\*\*([^*\n]++)\*\*")
_MARKED = re.compile(r"(?:答案|结论|结果|判断|回答|输出|\b[Aa]nswer)(?:应该|应)?\s*+")
_MARK_END = re.compile(r"】?(?:is\b|[是为])?[\s:：*“\"'‘]*+")
_NOT = re.compile(r"并?不[是为选]|并非|not\b|isn't\b")
_INSTEAD = re.compile(
    r"[。!\n]|((?:[,;]\s*+(?:而|应该?)?|而应?该?)[是为选]|(?:[,;]\s*+it\s+is|\bbut(?:\s+rather)?)\b)"
    r"[\s:*“\"'‘]*+"
)
"""The end of a sentence, or the words after which it says what is right in place of what is not."""
_SENTENCE_END = re.compile(r"[。!\n]|\.(?=\s|$)|,(?!\s*+[\dA-E])")

_BOTH = re.compile(
    r"是\s*+(?:/|或者?|还是)\s*+否|否\s*+(?:/|或者?|还是)\s*+是|对\s*+(?:/|或者?|还是)\s*+错"
)
"""Words that name both answers, and so none."""

_NEGATED = {"不是": "否", "不对": "错", "没错": "对"}
_WORD = "不是|不对|没错|[是否对错]"
_LONE = re.compile(rf"(?<!\w)({_WORD})(?:的)?(?!\w)")
_AFTER_MARK = re.compile(rf"(?:[是为]\s*+)?[\s:*“\"'‘]*+({_WORD})(?:的)?(?!\w)")
_ANYWHERE = re.compile(
    "是否|是非|对错|不错|否则|否定|否认|[但可还于总只凡要]是|[针面相绝应反核校]对|对[于方比照应冲象外手]"
    rf"|({_WORD})"
)


def extracted(task: str, text: str) -> str:
    """The answer in a text; for the three tasks that ask for lists, as JSON if it is a list.

    Without an answer it is "[]" for `intent_recognition`, else "". Full-width digits, letters and
    marks become those of ASCII. Of a text that thinks first, what follows the last `</think>`
    counts. Raises `ValueError` for an unknown task.
    """
    if task not in KINDS:
        raise ValueError(f"{task!r} is no task of Finova; its tasks are {', '.join(KINDS)}")
    text = plain(text[-READ:].rpartition("</think>")[2])
    match task:
        case "compliance" | "expression":
            return _word(text)
        case "reasoning":
            return _stated(text)
        case "slot_filling":
            return _list(text, is_slot)
        case "intent_recognition":
            text = _DASH.sub("-", text)
            return _list(text, _is_name) or _bare_intents(text) or "[]"
        case _:
            return _list(text, _is_name)


def plain(text: str) -> str:
    """The text with full-width forms of ASCII characters as these."""
    return text.translate(_FULL_WIDTH) if _HAS_FULL_WIDTH.search(text) else text


def without_style(text: str) -> str:
    r"""The text without `\text{}`, `\mathrm{}` and the like around its parts."""
    return _STYLE.sub(r"\1", text) if "\\" in text else text


def _boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{}` holds, empty ones apart. Boxes with nothing but blanks and
    marks between them, or their numbers, are given together: separated by semicolons if a comma or
    the like is between them, else by line ends.
    """
    open_at: list[tuple[int, int] | None] = []
    boxes: list[tuple[int, int, int]] = []  # begins, its content begins, its content ends
    for match in _BRACE.finditer(text):
        if match[0] == "}":
            box = open_at.pop() if open_at else None
            if box is not None and text[box[1] : match.start()].strip():
                while boxes and boxes[-1][0] > box[0]:
                    boxes.pop()
                boxes.append((*box, match.start()))
        elif match[0] == "{":
            open_at.append(None)
        elif match[0][0] == "b":
            open_at.append((match.start(), match.end()))
    found: list[str] = []
    follows: int | None = None
    for begin, start, end in reversed(boxes):
        if follows is not None:
            between = _BETWEEN_BOXES.fullmatch(text, end + 1, follows)
            if between is None:
                break
            found.append(";" if between[1] else "\n")
        found.append(_unwrapped(_in_one_line(text[start:end])))
        follows = begin
    return "".join(reversed(found)) or None


def _in_one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _unwrapped(content: str) -> str:
    r"""The content without style, without further boxes and braces around all of it."""
    content = without_style(content).strip()
    for _ in range(4):
        match = _BRACE.match(content, 1 if content[:1] == "\\" else 0)
        if match is None or not _closes_last(content, match.end()):
            break
        content = content[match.end() : -1].strip()
    return content.strip("$").strip()


def _closes_last(content: str, start: int) -> bool:
    """Whether the brace that opens before `start` is closed by the last character."""
    depth = 1
    for match in _BRACE.finditer(content, start):
        depth += {"}": -1, "\\{": 0, "\\}": 0}.get(match[0], 1)
        if depth == 0:
            return match.end() == len(content)
    return False


def _tagged(text: str) -> str | None:
    """What the last complete `<answer>` tag holds."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return _in_one_line(text[start + len("<answer>") : end].strip()) if start >= 0 else None


def _blocks(text: str) -> Iterator[str]:
    """The contents of the code blocks, the last one first."""
    fences = list(_FENCED.finditer(text))
    for at in range(len(fences) // 2 * 2 - 2, -1, -2):
        if block := text[fences[at].end() : fences[at + 1].start()].strip():
            yield block


def _forms(text: str) -> Iterator[str]:
    """The parts of a text that are marked as the answer, the most certain one first."""
    tag = _tagged(text)
    boxed = (_boxed(tag) if tag else None) or _boxed(text)
    yield from (part for part in (boxed, tag) if part)


def _list(text: str, is_item: Callable[[Item], bool]) -> str:
    """The list as JSON, else the text of a box, a tag or a wrong list as it is, else ""."""
    marked = list(_forms(text))
    for part in marked:
        if (found := _last_list(part, is_item, bare=True)) is not None:
            return found
    for part in (*_blocks(text), text):
        if (found := _last_list(without_style(part), is_item, bare=False)) is not None:
            return found
    return marked[0] if marked else ""


def _last_list(text: str, is_item: Callable[[Item], bool], *, bare: bool) -> str | None:
    """The last list of right items as JSON. If a list after it, or else the whole text, holds what
    is no such item, that as it is.
    """
    text = text.replace("\\{", "{").replace("\\}", "}").replace("\\_", "_").strip()
    if bare and text[:1] + text[-1:] == "【】" and "[" not in text:
        text = f"[{text[1:-1]}]"
    for part in lists_in(text):
        items = read_list(part, bare=bare)
        if items is None:
            continue
        if all(map(is_item, items)):
            return orjson.dumps(items).decode()
        if len(part) == len(text) or any(isinstance(item, dict) for item in items):
            return part
    if is_item is is_slot and (loose := objects_in(_BOX.sub("", text))):
        return orjson.dumps(loose).decode()
    return _without_brackets(text, is_item) if bare and is_item is _is_name else None


def _without_brackets(text: str, is_item: Callable[[Item], bool]) -> str | None:
    """The items of the last line, without brackets or quotation marks, as JSON."""
    line = text.strip().rpartition("\n")[2].replace(";", ",")
    items = read_list(f"[{line}]", bare=True)
    return orjson.dumps(items).decode() if items and all(map(is_item, items)) else None


def _bare_intents(text: str) -> str | None:
    """The last list of intents without quotation marks, else the last line if it names intents."""
    for part in lists_in(text):
        items = read_list(part, bare=True)
        if items and all(map(_is_intent, items)):
            return orjson.dumps(items).decode()
    return _without_brackets(text.strip("`\n "), _is_intent)


def _is_intent(item: Item) -> bool:
    return isinstance(item, str) and _INTENT.fullmatch(item) is not None


def _is_name(item: Item) -> bool:
    return isinstance(item, str)


def _word(text: str) -> str:
    """是, 否, 对 or 错; "" if the text has none of them.

    In a marked part any of them counts. Then one in bold that stands alone; in plain text, the one
    after the last 答案 or the like, else the first that stands alone, else the first that is no
    part of another word, such as 是否 or 但是.
    """
    for form in _forms(text):
        part = form.rpartition("\n")[2]  # the last of several boxes
        if len({_first(_LONE, word) for word in part.split(";") if _LONE.fullmatch(word)}) > 1:
            return ""
        if found := _first(_LONE, part) or _first(_ANYWHERE, part):
            return found
    for bold in reversed(_BOLD.findall(text)):
        if match := _LONE.fullmatch(bold.strip(" :。.,!“”\"'")):
            return _NEGATED.get(match[1], match[1])
    for mark in reversed(list(_MARKED.finditer(text))):
        if match := _AFTER_MARK.match(text, mark.end()):
            return _NEGATED.get(match[1], match[1])
    return _first(_LONE, text) or _first(_ANYWHERE, text)


def _first(pattern: re.Pattern[str], text: str) -> str:
    text = _BOTH.sub("\n", text)
    word = next((match[1] for match in pattern.finditer(text) if match[1]), "")
    return _NEGATED.get(word, word)


def _stated(text: str) -> str:
    """The answer to a question of reasoning: what is marked, else what follows the last 答案 or the
    like, but not what that says is wrong, else the last code block or bold part, else the last line
    if it is short.
    """
    for part in _forms(text):
        return _unwrapped(part)
    for mark in reversed(list(_MARKED.finditer(text))):
        start = _MARK_END.match(text, mark.end())
        at = start.end() if start else mark.end()
        rest = _right(text[at : at + 3 * LONGEST_PLAIN])[: 2 * LONGEST_PLAIN]
        if said := _SENTENCE_END.split(rest, maxsplit=1)[0].strip(" *“”\"'$"):
            return _unwrapped(said)
    for part in (*_blocks(text), *reversed(_BOLD.findall(text))):
        if said := part.strip(" *“”\"'$\n:"):
            return _unwrapped(_right(said)) if len(said) <= LONGEST_PLAIN else ""
    said = text.strip(" *“”\"'$。\n").rpartition("\n")[2].strip()
    return _unwrapped(_right(said)) if len(said) <= LONGEST_PLAIN else ""


def _right(said: str) -> str:
    """What a text says is right, if it begins with what is not; "" if it says no more than that."""
    denied = _NOT.match(said)
    if denied is None:
        return said
    instead = _INSTEAD.search(said, denied.end(), denied.end() + LONGEST_PLAIN)
    return said[instead.end() :] if instead is not None and instead[1] else ""
