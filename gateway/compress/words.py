"""The words of a text in English or Chinese, and where a text has a word."""

import re
from collections.abc import Iterator
from functools import lru_cache

from gateway.compress.budget import check_time

_WORD = re.compile(r"[a-z0-9][a-z0-9.%'-]*[a-z0-9%]|[a-z0-9]|[\u4e00-\u9fff]+")
STOP = frozenset(
    _WORD.findall(
        "the of a an in on for to and or by at is are was were what which how did do does with "
        "from as that this it its be per over between during has have had will would who whom "
        "whose when where why than about there any many much 的 了 是 在 和 与 有 为 对"
    )
)
_CODE_DIGITS = 5
"""So many digits are found behind letters as well, as in `SH600519`."""


def words_of(text: str) -> list[str]:
    """The words in lower case, without the endings of plurals, possessives and nationalities, and
    without those that say nothing. Chinese has no spaces, so of a run of characters each pair is
    taken for a word.
    """
    found = []
    for word in _WORD.findall(text.lower()):
        if not word.isascii():
            found += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        elif word not in STOP:
            found.append(_stem(word))
    return found


def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    for ending, stem in (("ies", "y"), ("ican", "ica"), ("s", "")):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return word.removesuffix(ending) + stem
    return word


def places(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Where a text has a word, maybe in the plural, and not as a part of another word or number."""
    check_time()
    if not word or word.removesuffix("s") not in text:
        return
    if word.isascii():
        yield from (found.span() for found in _pattern(word).finditer(text))
    elif (start := text.find(word)) >= 0:
        yield start, start + len(word)


@lru_cache(4_096)
def _pattern(word: str) -> re.Pattern[str]:
    stem = re.escape(word.removesuffix("s") if len(word) > 3 else word)
    before = r"\d" if word.isdigit() and len(word) >= _CODE_DIGITS else "[a-z0-9_]"
    return re.compile(rf"(?<!{before}){stem}(?:s|es)?(?![a-z0-9_])")
