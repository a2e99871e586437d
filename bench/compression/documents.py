"""Cases over documents: a field by its name or path, and records in an array; and over texts of
many news items, of which a question needs one sentence.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.compression import wordings
from bench.compression.case import LANGUAGES, Answer, Case, Language
from bench.compression.kept import Leaf, Sentence
from bench.compression.tables import SAFE, Number, Record, day_of, language_for

_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")
_NAME = re.compile(r"(?:[A-Z][\w&'-]+(?: (?=[A-Z]))?){2,}")
_WORD = re.compile(r"[A-Za-z][a-z]{4,}")
_PAIR = re.compile(r"\b[A-Za-z][a-z]{4,} [a-z]{5,}\b")
_DATED = re.compile(r"\A\d{4}-\d\d-\d\d: ")
_OPENINGS = frozenset(
    {"The", "This", "These", "However", "Additionally", "In", "As", "Its", "With"}
)


@dataclass(frozen=True, slots=True)
class _Field:
    """A scalar of a document: its name, the names above, and its siblings' names."""

    path: tuple[str, ...]
    name: str
    value: str
    beside: tuple[str, ...]


def records_in(document: Any) -> Sequence[Record] | None:
    """The first array of flat objects with the same fields in a document, if it has one."""
    if isinstance(document, list) and len(document) > 1:
        are_flat = all(isinstance(item, dict) and _is_flat(item) for item in document)
        are_alike = are_flat and all(item.keys() == document[0].keys() for item in document)
        return document if are_alike else None
    inside = document.values() if isinstance(document, dict) else ()
    return next((found for value in inside if (found := records_in(value))), None)


def _is_flat(item: Mapping[str, Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in item.values())


def _fields(document: Any, path: tuple[str, ...] = ()) -> Iterator[_Field]:
    if not isinstance(document, dict):
        return
    for name, value in document.items():
        if isinstance(value, Number) or (isinstance(value, str) and SAFE.fullmatch(value)):
            yield _Field(path, name, str(value), tuple(document))
        elif isinstance(value, dict) and SAFE.fullmatch(name):
            yield from _fields(value, (*path, name))


def cases(answer: Answer, document: Any, count: int, seed: int) -> Iterator[Case]:
    """At most `count` cases, each on a field of the document."""
    rng = random.Random(f"{seed} {answer.id} fields")  # noqa: S311 - a reproducible draw
    fields = list(_fields(document))
    same = Counter((field.name, field.value) for field in fields)
    fields = [f for f in fields if same[f.name, f.value] == 1 and f.value not in f.path]
    rng.shuffle(fields)
    for number in range(count):
        while fields:
            field = fields.pop()
            language = language_for(not field.name.isascii(), rng)
            phrase = wordings.column_phrase(field.name, field.beside, language, rng)
            if phrase is None:
                continue
            said = _said(field, phrase, language, rng)
            subject = rng.choice(answer.subject[language])
            filled = {"field": said, "s": subject}
            question = wordings.ask("field", language, rng, filled, is_dated=True)
            needed = Leaf(field.path[-1:], field.name, field.value)
            yield Case(f"{answer.id}/f{number}", answer, "field", language, question, needed)
            break


def _said(field: _Field, phrase: str, language: Language, rng: random.Random) -> str:
    dotted = ".".join((*field.path, field.name))
    if not field.path:
        if language == "zh":
            return rng.choice((phrase, phrase, f"{field.name}字段", f"字段{field.name}"))
        return rng.choice((f"the {phrase}", f"the {phrase}", f"the field {field.name}"))
    above, day = field.path[-1], day_of(field.path[-1])
    if day is not None:
        when = wordings.day_phrases(day, language, rng, is_month=False, is_one_year=False)
        pool = [f"the {phrase} {when['on']}", f"the {phrase} for {when['date']}"]
        pool = (
            pool if language == "en" else [f"{when['date']}的{phrase}", f"{when['date']}{phrase}"]
        )
    elif language == "en":
        pool = [f"the {phrase} of {above}", f"{above}'s {phrase}", f"the {phrase} under {above}"]
    else:
        pool = [f"{above}的{phrase}", f"{above} {phrase}", f"{above}这一项的{phrase}"]
    return rng.choice([*pool, dotted])


def text_cases(answer: Answer, text: str, count: int, seed: int) -> Iterator[Case]:
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
