"""Numbers in words, in English and Chinese."""

import re

_ENGLISH = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "fifteen", "twenty", "thirty", "fifty", "sixty"),
)
_VALUES: dict[str, int] = dict(zip(_ENGLISH, (*range(1, 13), 15, 20, 30, 50, 60), strict=True))
_QUARTERS = ("first", "second", "third", "fourth")
_HAN: dict[str, int] = {c: n for n, c in enumerate("零一二三四五六七八九十")} | {
    "两": 2,
    "〇": 0,
    "○": 0,
}
_WORDS = "|".join(sorted(_ENGLISH, key=len, reverse=True))

COUNT = rf"(?P<n>\d{{1,3}}|[一二两三四五六七八九十]{{1,3}}|(?:{_WORDS})\b)"
"""A small number in digits or words, as a pattern with a group `n`."""

_IN_WORDS = re.compile(
    rf"\b(?P<english>{_WORDS})[- ](?=(?:day|year|month|week)\b)|(?P<plain>\d+) (?=(?:day|year)\b)"
    rf"|\b(?P<quarter>{'|'.join(_QUARTERS)}) quarter\b"
    r"|(?P<percent>百分之)(?P<minus>负?)(?P<whole>\d+(?:\.\d+)?|[零一二两三四五六七八九十]{1,3})"
    r"(?:点(?P<behind>[零〇一二三四五六七八九]{1,4}))?"
    r"|(?P<han>[零〇○一二三四五六七八九十]{1,4})(?=[年月日号季])"
)


def number_of(text: str) -> int:
    """The number that is written in digits, as `COUNT` finds it, or in at most four Chinese
    characters; a Chinese year is read digit by digit.
    """
    if text.isdecimal():
        return int(text)
    if text in _VALUES:
        return _VALUES[text]
    before, ten, behind = text.rpartition("十")
    if ten:
        tens: int = _HAN.get(before[-1:], 1)
        return 10 * tens + _HAN.get(behind[:1], 0)
    return int("".join(str(_HAN[character]) for character in text))


def in_digits(text: str) -> str:
    """A text in lower case with `20-day` for "twenty-day" and "20 day", `q2` for "second quarter",
    `6月20日` for "六月二十日" and `3.5%` for "百分之三点五".
    """

    def digits(found: re.Match[str]) -> str:
        if found["percent"]:
            behind = "".join(str(_HAN[character]) for character in found["behind"] or "")
            whole = found["whole"] if "." in found["whole"] else number_of(found["whole"])
            return f"{found['minus'] and '-'}{whole}{behind and '.'}{behind}%"
        if found["quarter"]:
            return f"q{_QUARTERS.index(found['quarter']) + 1}"
        if found["han"]:
            return str(number_of(found["han"]))
        return f"{found['plain'] or number_of(found['english'])}-"

    return _IN_WORDS.sub(digits, text)
