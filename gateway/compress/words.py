"""The words of a text in English or Chinese, for comparing it with a question."""

import re

_WORD = re.compile(r"[a-z0-9][a-z0-9.%'-]*[a-z0-9%]|[a-z0-9]|[\u4e00-\u9fff]+")
STOP = frozenset(
    _WORD.findall(
        "the of a an in on for to and or by at is are was were what which how did do does with "
        "from as that this it its be per over between during has have had will would who whom "
        "whose when where why than about there any many much 的 了 是 在 和 与 有 为 对"
    )
)


_UNITS = {
    "year": "year",
    "yr": "year",
    "y": "year",
    "年": "year",
    "month": "month",
    "个月": "month",
    "week": "week",
    "周": "week",
    "day": "day",
    "日": "day",
    "天": "day",
}
_TERM = re.compile(r"(?<![\d.])(\d{1,3})[ -]?(year|yr|y|month|week|day|年|个月|周|日|天)(?![a-z])")
"""A term such as `10-year`, `10Y` or `10年`."""


def words_of(text: str) -> list[str]:
    """The words in lower case, without their endings and without those that say nothing. Chinese
    has no spaces, so of a run of characters each pair is taken for a word.
    """
    text = text.lower()
    found = [f"{number}-{_UNITS[unit]}" for number, unit in _TERM.findall(text)]
    for word in _WORD.findall(text):
        if word.isascii():
            if word not in STOP:
                found.append(_stem(word))
        else:
            found += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
    return found


def _stem(word: str) -> str:
    """A word without the ending of a plural, a possessive or a nationality."""
    word = word.removesuffix("'s")
    for ending, stem in (("ese", ""), ("ies", "y"), ("ican", "ica"), ("s", "")):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return word.removesuffix(ending) + stem
    return word.removesuffix("a") if word == "china" else word
