"""What a question excludes (`except June`, `除了6月`) and negates (`not above 5`, `未超过5`)."""

import re

_NOT = (
    r"(?:\b(?:exclud(?:e[sd]?|ing)|except(?:ing)?(?: for)?|other than|apart from|aside from"
    r"|(?:all|any|every)(?: \w{1,9})? but"
    r"|ignor(?:e|ing)|omit(?:ting)?|without|not|no|never|nor)|n['’]t)"
)
_NOT_CHINESE = (
    r"除了|除去|除开|除|排除|剔除|扣除|不含|不包括|不包含|不算|(?<!是)不是|并非|(?<!有)没有"
)
"""`有没有` and `是不是` only ask."""

_EXCLUDES = re.compile(
    rf"{_NOT}:? (?:(?:in|on|at|for|from|of|during|between|before|after|since|until|the|any|days?"
    rf"|rows?|dates?|month|year) ){{0,4}}$"
    rf"|(?:{_NOT_CHINESE}|不在|不要|不看|不计)\s?[在于从自]?\s?(?:[今去本]年的?)?$"
)
_EXCLUDES_BEHIND = re.compile(r"\s?的?(?:以外|除外|之外|不算|不计|(?:is |are )?excluded\b)")
_NEGATES = re.compile(
    rf"{_NOT} (?:(?:an?|any|be|been|it|the|days?|rows?|that|which|when|with|on|was|is|were|are"
    r"|ha[sd]|have|clos\w{0,3}|trad\w{0,3}|go|went|move[sd]?|prices?|volumes?|values?|f[ae]ll\w{0,3}"
    r"|drop\w{0,4}|declin\w{0,3}|ris\w{0,3}|rose|gain\w{0,3}|up|down) ){0,5}$"
    rf"|(?:{_NOT_CHINESE}|(?<!有)没|未曾?|(?<![是会能要])不会?)"
    r"\s?(?:在|再|曾|有|出现|大幅|收于|收盘价?|成交量|价格|下?跌幅?|上?涨幅?)?\s?$"
)
_BEFORE = 48
"""How far before something its negation begins at most, in characters."""


def is_excluded(text: str, start: int, end: int) -> bool:
    """Whether a text in lower case excludes what stands from `start` to `end`. `no 600519` is a
    number, not a negation.
    """
    if _EXCLUDES_BEHIND.match(text, end):
        return True
    before = text[max(start - _BEFORE, 0) : start]
    is_number = before.endswith("no ") and text[start : start + 1].isdigit()
    return not is_number and _EXCLUDES.search(before) is not None


def is_negated(text: str, place: int) -> bool:
    """Whether a text in lower case negates the comparison at a place."""
    return _NEGATES.search(text[max(place - _BEFORE, 0) : place]) is not None
