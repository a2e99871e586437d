"""Shortens a text, such as news or a filing: sentences ranked by the question, in their order."""

import re
from collections import Counter
from collections.abc import Iterable

from gateway.compress.budget import Budget
from gateway.compress.cut import MORE, OF_NUMBERS, border, cut
from gateway.compress.words import words_of

LONGEST = 2**20
"""How much of a text is read, in characters."""

SENTENCE_CHARS = 600
"""A longer sentence is cut into pieces at word borders."""

_END = re.compile(r"(?<=[。！？；!?\n])|(?<=[a-z0-9\"”)]\.)\s+(?=[A-Z\"“(\d])")


def shorten_text(text: str, budget: Budget, question: str) -> str:
    """Sentences of the text within the budget: those that share the rarest words with the question,
    then the first ones.
    """
    if budget.fits(text):
        return text
    sentences = _sentences(text[: border(text, LONGEST)])
    words = [{*words_of(sentence)} for sentence in sentences]
    asked = {*words_of(question)}
    spread = Counter(word for sentence in words for word in sentence & asked)

    def worth(place: int) -> float:
        """How much a sentence says of the question; rare words count most."""
        return sum(1 / spread[word] for word in words[place] & asked)

    ranked = sorted(range(len(sentences)), key=lambda place: (-worth(place), place))
    kept: list[int] = []
    size, gap = 0, budget.size(f" {MORE} ")
    for place in ranked:
        more = budget.size(f"{sentences[place]} ") + gap
        if size + more > budget.limit:
            if size > budget.limit / 2:
                break
            continue
        size += more
        kept.append(place)
    shortened = _joined(sentences, sorted(kept))
    while kept and not budget.fits(shortened):
        kept.pop()
        shortened = _joined(sentences, sorted(kept))
    return shortened or _cut(text, budget)


def _cut(text: str, budget: Budget) -> str:
    """The start of a text within the budget."""
    low, high = 0, min(len(text), 8 * budget.limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if budget.fits(text[:middle] + MORE) else (low, middle - 1)
    return cut(text, low)


def _sentences(text: str) -> list[str]:
    found = (part.strip() for part in _END.split(text) if part)
    return [piece for sentence in found if sentence for piece in _pieces(sentence)]


def _pieces(sentence: str) -> Iterable[str]:
    while len(sentence) > SENTENCE_CHARS:
        end = border(sentence, SENTENCE_CHARS) or len(sentence) - len(sentence.lstrip(OF_NUMBERS))
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence


def _joined(sentences: list[str], places: list[int]) -> str:
    parts: list[str] = []
    before = -1
    for place in places:
        if place != before + 1:
            parts.append(MORE)
        parts.append(sentences[place])
        before = place
    if parts and before != len(sentences) - 1:
        parts.append(MORE)
    return " ".join(parts)
