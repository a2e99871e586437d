"""Numbers in words, in English and Chinese."""

import re

_ENGLISH = {
    word: number
    for number, word in enumerate(
        (
            *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            *("eleven", "twelve", "thirteen", "fourteen", "fifteen"),
        ),
        1,
    )
} | {"twenty": 20, "thirty": 30, "fifty": 50, "sixty": 60, "fifty-two": 52, "fifty two": 52}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        (
            *("first", "second", "third", "fourth", "fifth"),
            *("sixth", "seventh", "eighth", "ninth", "tenth"),
        ),
        1,
    )
}
_HAN = {c: n for n, c in enumerate("零一二三四五六七八九十")} | {"两": 2, "〇": 0, "○": 0}

HAN = "[一二两三四五六七八九十]{1,3}"
"""A number up to 99 in Chinese, as a pattern."""

_LONGEST_FIRST = "|".join(sorted(_ENGLISH, key=len, reverse=True))

WORDS = rf"(?:{_LONGEST_FIRST})\b"
"""An English number, as a pattern."""

COUNT = rf"(?P<n>\d{{1,3}}|{HAN}|{WORDS})"
"""A small number in digits or words, as a pattern with a group `n`."""

ORDINAL = rf"(?:{'|'.join(_ORDINALS)}|\d{{0,2}}(?:1st|2nd|3rd|\dth))"
"""An English ordinal number, as a pattern."""

_NUMBER_OF_DAYS = re.compile(
    rf"\b({_LONGEST_FIRST})[- ](?=(?:day|year|month|week)\b)|(\d+) (?=(?:day|year|month)\b)"
    rf"|({HAN})(?=日(?:均|移动|平均|后|线)|年期|年国债)"
    rf"|百分之(负?)(\d+(?:\.\d+)?|零|{HAN})(?:点([零〇一二三四五六七八九]{{1,4}}))?"
)


def number_of(text: str) -> int:
    """The number that a pattern of this module found, at most 9,999. A Chinese year is read digit
    by digit.
    """
    text = text.lower()
    if digits := re.match(r"\d+", text):
        return min(int(digits[0]), 9_999)
    if (found := _ENGLISH.get(text) or _ORDINALS.get(text)) is not None:
        return found
    before, ten, behind = text.rpartition("十")
    if ten:
        return 10 * _HAN.get(before[-1:], 1) + (_HAN.get(behind[:1], 0) if behind else 0)
    if len(text) == len("二〇二六"):
        return int("".join(str(_HAN[character]) for character in text))
    return _HAN.get(text[-1:], 1)


def in_digits(text: str) -> str:
    """A text with `20-day` for "twenty-day" and "20 day", `20日` for "二十日" and `3.5%` for
    "百分之三点五".
    """

    def digits(found: re.Match[str]) -> str:
        english, number, chinese, minus, percent, digits_behind = found.groups()
        if percent:
            whole = percent if percent[0].isascii() else str(number_of(percent))
            behind = "".join(str(_HAN[character]) for character in digits_behind or "")
            return f"{'-' if minus else ''}{whole}{'.' if behind else ''}{behind}%"
        if chinese:
            return str(number_of(chinese))
        return f"{_ENGLISH[english] if english else number}-"

    return _NUMBER_OF_DAYS.sub(digits, text)
