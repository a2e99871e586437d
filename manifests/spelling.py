"""Mends the spelling of a question before it is read: typing errors, pinyin and homophones.

A Latin word that is unknown is replaced by a known one with the same first letter at a distance of
one edit (two for long words, counting a swap of neighbours as one), or, if it is pinyin, by the
Chinese words that sound so. A run of Chinese characters that sounds like a known word, and is none,
is replaced by it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

_LATIN = re.compile(r"[A-Za-z]+")
_LATIN_RUN = re.compile(r"[A-Za-z]+(?: +[A-Za-z]+)*")
_CHINESE = re.compile(r"[\u4e00-\u9fff]{2,}")
_LEAST, _LONG, _MOST = 4, 8, 24
_SYLLABLES: Final = 8
"""The most characters of a Chinese word that is looked up by its sound."""

_COMMON: Final = """
about after again against also always another anything around because been before being between
both bring came cannot come could does doing done down each else even ever every everyone first
from gave give goes going good great have having help here hers himself into itself just keep kind
know last later least less like little long look looking made make makes making many maybe mine more
most much must need needs never next nothing once only onto other others ours over part people
perhaps please quite rather really right said same says seem seems shall share should since some
someone something still such sure take takes taking tell than thank thanks that their theirs them
then there these they thing things think this those though through time today together tomorrow
tonight under until upon used using very want wants were what whatever when where whether which
while whole whose will with within without would year years your yours yourself yesterday
"""
COMMON: Final = frozenset(_COMMON.split())
"""English words that say nothing of what is asked for."""


class Spelling:
    """Known words, by their letters and by their sound."""

    def __init__(
        self, latin: Iterable[str], chinese: Iterable[str], more: Iterable[str] = ()
    ) -> None:
        """`latin` are words in lower case, and `chinese` words of two characters or more. Those in
        `more` are known too, but stand in for no other.
        """
        self._latin = {word for word in latin if len(word) > 1}
        self._chinese = {word for word in chinese if len(word) > 1}
        self._known = self._chinese | {*more}

    def mended(self, text: str) -> str:
        """The text with known words in place of unknown ones that are nearly the same."""
        if any(self._is_unknown(word[0]) for word in _LATIN.finditer(text)):
            text = _LATIN_RUN.sub(lambda run: self._run(run[0]), text)
        return _CHINESE.sub(lambda run: self._sounding(run[0]), text)

    def _is_unknown(self, word: str) -> bool:
        low = word.lower()
        return (
            _LEAST <= len(word) <= _MOST
            and not word.isupper()
            and not {low, low.removesuffix("s"), low.removesuffix("ing"), low.removesuffix("ed")}
            & self._latin
            and low not in COMMON
        )

    def _run(self, run: str) -> str:
        """A run of Latin words; two words or one may be the pinyin of one Chinese word."""
        words, found, at = run.split(), list[str](), 0
        while at < len(words):
            for length in (3, 2, 1):
                some = words[at : at + length]
                is_whole = len(some) == length and all(map(self._is_unknown, some))
                if is_whole and (spelled := self._spelled("".join(some).lower())):
                    found.append(spelled)
                    at += length
                    break
            else:
                word = words[at]
                found.append(self._nearest(word) if self._is_unknown(word) else word)
                at += 1
        return " ".join(found)

    def _spelled(self, letters: str) -> str:
        """The Chinese words that letters spell in pinyin, one or several; empty if they do not."""
        if letters in self._by_pinyin:
            return self._by_pinyin[letters]
        for cut in range(len(letters) - 4, 3, -1):
            if letters[:cut] in self._by_pinyin and (rest := self._spelled(letters[cut:])):
                return self._by_pinyin[letters[:cut]] + rest
        return ""

    def _nearest(self, word: str) -> str:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        low = word.lower()
        most = 1 if len(low) < _LONG else 2
        near = process.extractOne(
            low, self._alike(low, most), scorer=OSA.distance, score_cutoff=most
        )
        return str(near[0]) if near else word

    def _alike(self, word: str, most: int) -> list[str]:
        """Known words with the same first letter, and as long but for `most` letters. A word of
        four letters may only lack one: "rain" is not "gain".
        """
        least = 1 if len(word) == _LEAST else -most
        return [
            known
            for length in range(len(word) + least, len(word) + most + 1)
            for known in self._lengths.get((word[0], length), ())
        ]

    def _sounding(self, run: str) -> str:
        """A run of Chinese characters with words in place of what only sounds like them."""
        from pypinyin import lazy_pinyin

        sounds = lazy_pinyin(run)
        if len(sounds) != len(run):
            return run
        found, at = "", 0
        while at < len(run):
            for length in range(min(_SYLLABLES, len(run) - at), 1, -1):
                part = run[at : at + length]
                if part in self._known:
                    found, at = found + part, at + length
                    break
                heard = self._by_sound.get((*sounds[at : at + length],))
                if heard and _share(part, heard) and not self._has_word(part):
                    found, at = found + heard, at + length
                    break
            else:
                found, at = found + run[at], at + 1
        return found

    def _has_word(self, part: str) -> bool:
        return any(
            part[i:j] in self._known for i in range(len(part)) for j in range(i + 2, len(part))
        )

    @cached_property
    def _lengths(self) -> Mapping[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        for word in sorted(self._latin):
            if len(word) >= _LEAST:
                found.setdefault((word[0], len(word)), []).append(word)
        return found

    @cached_property
    def _by_sound(self) -> Mapping[tuple[str, ...], str]:
        from pypinyin import lazy_pinyin

        return {(*lazy_pinyin(word),): word for word in sorted(self._chinese, reverse=True)}

    @cached_property
    def _by_pinyin(self) -> Mapping[str, str]:
        return {"".join(sounds): word for sounds, word in self._by_sound.items()}


def _share(part: str, heard: str) -> bool:
    """Whether at least half of the characters are right, or at least one of two or three."""
    return 2 * sum(a == b for a, b in zip(part, heard, strict=True)) >= len(part) - 1


def words_of(texts: Collection[str]) -> Iterator[str]:
    """The Latin words of texts, in lower case."""
    for text in texts:
        yield from (word.lower() for word in _LATIN.findall(text))
