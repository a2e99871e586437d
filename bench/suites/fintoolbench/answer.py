"""The kind of answer that a task asks for, the part of a text that states its answer, and which of
the options A to E a text chooses.

The kind follows from the gold answer alone, as in FinToolBench's public evaluator
(arXiv 2603.08262). So every judge and every agent is measured by the same kinds.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

import orjson

READ = 4_000
"""Rules read at most this many characters of an answer, from its end. More would hold the event
loop.
"""

AnswerKind = Literal["none", "criterium", "choice", "numeric", "free_text"]

_NUMERIC = re.compile(r"[\d.,+\-eE%/ 亿万千百十兆]*\d[\d.,+\-eE%/ 亿万千百十兆]*")

_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_MARKED = re.compile(
    r"(?:\banswer[\s*]*(?:is|are|[:：=])+|\bfinal answer\b[\s*]*(?:is|are|[:：=])*"
    r"|答案[\s*]*(?:应该|应)?[是为:：=]*|正确选项[\s*]*[是为:：=]*)[\s*]*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[\n。;；!！]|\.(?=\s|$)")


@lru_cache(4096)
def answer_kind(gold: str) -> AnswerKind:
    """The kind of a gold answer.

    `criterium` is a JSON object or array: points to cover, with weights. `choice` is one letter of
    A to E in either case. `numeric` is digits with only `.,+-eE%/`, blanks and the Chinese units
    亿万千百十兆. `none` is a blank answer: such an episode is not judged. All else is `free_text`,
    also "nan", which eighteen questions of FinToolBench have for an answer.
    """
    text = gold.strip()
    if not text:
        return "none"
    if text[0] + text[-1] in ("{}", "[]") and _is_json(text):
        return "criterium"
    if len(text) == 1 and text.upper() in "ABCDE":
        return "choice"
    return "numeric" if _NUMERIC.fullmatch(text) else "free_text"


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def stated(text: str) -> str | None:
    r"""The part of a text that states its answer; None if no part does.

    That is the content of its last `\boxed{}`, else of its last `<answer>` tag, else what follows
    the last "answer is", "final answer", 答案 or 正确选项, up to the end of that sentence.
    """
    for form in (_BOXED, _TAGGED):
        if found := form.findall(text):
            return str(found[-1])
    marks = list(_MARKED.finditer(text))
    if not marks:
        return None
    rest = text[marks[-1].end() :]
    return _SENTENCE_END.split(rest, maxsplit=1)[0] or rest


# not the A in A股, nor the one in ABC
_LETTER = r"(?<![A-Za-z0-9])(?-i:[A-E])(?![A-Za-z0-9]|[股类轮级])"
_MORE = rf"\s*(?:[,、/&+和与或及]|\band\b|\bor\b)\s*{_LETTER}"
_LONE = re.compile(r"\W*([A-E])\W*", re.IGNORECASE)
_LEADING = re.compile(
    rf"\W*(?:选项|选择|选|option|choice)?[\W_]*({_LETTER})(?P<more>{_MORE})?", re.IGNORECASE
)
_PICKED = re.compile(
    r"(?:(?<![不未没])(?:选择|选(?!项))|(?<!not )(?<!n't )\bchoose|\b(?:choice|option)\s+is)"
    r"\s*[:是为]?",
    re.IGNORECASE,
)
_ALONE = r"(?<!(?-i:[A-E])[,、/&和与或及])(?<!(?-i:[A-E])[,&]\s)(?<!and )(?<!or )"
_RIGHT = re.compile(
    rf"{_ALONE}({_LETTER})\s*(?:选项|项)?\s*"
    r"(?:[是为]?(?:正确|对的)|is\s(?:the\s)?(?:correct|right|best)\b)",
    re.IGNORECASE,
)
# not the English article
_FREE = re.compile(rf"{_LETTER}(?!(?<=A)\s+(?!(?:is|was|and|n?or)\b)[a-z])")
_OPENING = re.compile(
    rf"\W*(?:选项|option|choice)?[\W_]*({_LETTER})(?!{_MORE})\s*(?:[.。,:;)、\n]|$)", re.IGNORECASE
)
_OPTION = re.compile(r"^[^\S\n]*([A-E])[^\S\n]*[.、:)](.*)$", re.MULTILINE)


def chosen(text: str, question: str = "") -> str | None:
    """The letter that a text chooses; None where it chooses none, or more than one.

    These rules are tried in order:

    1. A text that is one letter chooses it.
    2. The letter with which the stated answer (`answer.stated`) begins.
    3. The letter after the last 选, "choose" or "option is".
    4. The only letter that is said to be right.
    5. The only letter that stands by itself anywhere in the text.
    6. The letter with which the text opens, unless the text goes through the options.
    7. The option of the question whose words the text is or states.
    """
    text = unicodedata.normalize("NFKC", text).replace("**", " ").strip()
    if lone := _LONE.fullmatch(text):
        return lone[1].upper()
    said = stated(text)
    for scope in (said, _after_last(_PICKED, text)):
        if scope is None:
            continue
        if lone := _LONE.fullmatch(scope):
            return lone[1].upper()
        if match := _LEADING.match(scope):
            return None if match["more"] else match[1].upper()
    right = {letter.upper() for letter in _RIGHT.findall(text)}
    if len(letters := right or set(_FREE.findall(text))) == 1:
        return str(letters.pop())
    if not right and len(_OPTION.findall(text)) <= 1 and (match := _OPENING.match(text)):
        return str(match[1])
    return _by_words((text, said), question)


def _by_words(texts: tuple[str | None, ...], question: str) -> str | None:
    options = _OPTION.findall(unicodedata.normalize("NFKC", question))
    answers = {text.strip().rstrip(".。") for text in texts if text} - {""}
    named = [letter for letter, words in options if words.strip().rstrip(".。") in answers]
    return named[0] if len(named) == 1 else None


def _after_last(mark: re.Pattern[str], text: str) -> str | None:
    marks = list(mark.finditer(text))
    return text[marks[-1].end() :] if marks else None
