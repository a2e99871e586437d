"""Cases over a text of many news items: a question on one of them needs one sentence."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from bench.compression import wordings
from bench.compression.case import LANGUAGES, Answer, Case
from bench.compression.kept import Sentence

_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_NAME = re.compile(r"(?:[A-Z][\w&'-]+(?: (?=[A-Z]))?){2,}")
_WORD = re.compile(r"[A-Za-z][a-z]{4,}")
_PAIR = re.compile(r"\b[A-Za-z][a-z]{4,} [a-z]{5,}\b")
_DATED = re.compile(r"\A\d{4}-\d\d-\d\d: ")
_OPENINGS = frozenset(
    {"The", "This", "These", "However", "Additionally", "In", "As", "Its", "With"}
)


def cases(answer: Answer, text: str, count: int, seed: int) -> Iterator[Case]:
    """At most `count` cases, each on what only one sentence of the text is about."""
    rng = random.Random(f"{seed} {answer.id}")  # noqa: S311 - a reproducible draw
    sentences = _sentences(text)
    everything = text.lower()
    words = Counter(word for s in sentences for word in {w.lower() for w in _WORD.findall(s)})
    rng.shuffle(sentences)
    made = 0
    for sentence in sentences:
        if made == count:
            return
        topic = _topic(sentence, everything, words, rng)
        if topic is None:
            continue
        language = LANGUAGES[made % 2]
        said = {"topic": topic, "s": rng.choice(answer.subject[language])}
        question = wordings.ask("sentence", language, rng, said, is_dated=True)
        needed = Sentence(sentence)
        yield Case(f"{answer.id}/{made}", answer, "sentence", language, question, needed)
        made += 1


def _sentences(text: str) -> list[str]:
    found = [_DATED.sub("", part.strip()) for part in _ENDS.split(text)]
    counted = Counter(found)
    return [
        part
        for part in found
        if 60 <= len(part) <= 400 and counted[part] == 1 and not {'"', "\\"} & set(part)
    ]


def _topic(sentence: str, everything: str, words: Counter[str], rng: random.Random) -> str | None:
    """What a user would call the subject of the sentence: a name, or two words in a row, that the
    text has once.
    """
    names = [str(name).strip() for name in _NAME.findall(sentence)]
    once = [n for n in names if everything.count(n.lower()) == 1 and _is_name(n.split())]
    if once:
        return rng.choice(once)
    pairs = [
        str(found[0]) for found in _PAIR.finditer(sentence) if _is_rare(found[0].split(), words)
    ]
    alone = [pair for pair in pairs if everything.count(pair.lower()) == 1]
    return rng.choice(alone) if alone else None


def _is_name(words: Sequence[str]) -> bool:
    return len(words) >= 2 and words[0] not in _OPENINGS


def _is_rare(words: Sequence[str], counted: Counter[str]) -> bool:
    return any(counted[word.lower()] <= 2 for word in words)
