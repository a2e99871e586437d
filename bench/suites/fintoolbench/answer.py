"""The kind of answer that a task asks for, and the part of a text that states its answer.

The kind follows from the gold answer alone, as in FinToolBench's public evaluator
(arXiv 2603.08262). So every judge and every agent is measured by the same kinds.
"""

import re
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
