"""Terms for the search: queries and tools share them across English and Chinese.

`words` are English words in the singular and Chinese words as rjieba cuts them. A `Glossary` turns
every spelling of a finance concept, English or Chinese, into one term. It also knows the broader
concepts that a concept is read from (a gross margin from an income statement). The same text always
gives the same terms, and nothing leaves the process, because rjieba includes its dictionary.
"""

import re
from collections.abc import Iterable, Iterator
from math import log
from pathlib import Path

GLOSSARY = Path(__file__).parent / "glossary.tsv"

_RUN = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]+")
_UNIT = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]")
CHINESE = "\u4e00"

# The constants of BM25 (Robertson and Zaragoza, 2009).
SATURATION = 1.2
LENGTH = 0.75

Unit = tuple[str, ...]


def words(text: str) -> Iterator[str]:
    """English and Chinese words without numbers, and the words inside long Chinese words."""
    # Loading rjieba takes 90 ms and 34 MB, so it is loaded on the first search only.
    from rjieba import cut_for_search

    for run in _RUN.findall(text.lower()):
        if run >= CHINESE:
            yield from (word for word in cut_for_search(run) if len(word) > 1)
        elif not run.isdigit():
            yield _singular(run)


def rarity(having: int, texts: int) -> float:
    """The weight of a term that so many of all texts have (the idf of BM25)."""
    return log(1 + (texts - having + 0.5) / (having + 0.5))


class Glossary:
    """Concepts by their spellings. At each place of a text the longest spelling counts."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Each line has English spellings, Chinese spellings, the concepts it is read from, and the
        facets that it names.

        Tabs separate these four, and bars separate the entries of each; facets of several kinds
        (`asks:history|quote,country:cn`) are separated by commas. The name of a concept is its
        first spelling. Raises `ValueError` for a concept that has no line.
        """
        self._concepts: dict[Unit, list[str]] = {}
        self._read_from: dict[str, tuple[str, ...]] = {}
        self._facets: dict[str, tuple[tuple[str, str], ...]] = {}
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            *spelled, facets = line.strip("\n").split("\t")
            english, chinese, sources = (part.split("|") for part in spelled)
            concept = _term(english[0])
            self._facets[concept] = tuple(_pairs(facets))
            self._read_from[concept] = tuple(_term(source) for source in sources if source)
            for spelling in filter(None, english + chinese):
                self._concepts.setdefault(_units(spelling), []).append(concept)
        for concept, broader in self._read_from.items():
            if missing := set(broader) - self._read_from.keys():
                raise ValueError(f"glossary: {concept} is read from unknown {sorted(missing)}")
        self._longest: dict[str, int] = {}
        for units in self._concepts:
            self._longest[units[0]] = max(len(units), self._longest.get(units[0], 0))

    @classmethod
    def load(cls, path: Path = GLOSSARY) -> "Glossary":
        return cls(path.read_text(encoding="utf-8").splitlines())

    def concepts(self, text: str) -> list[str]:
        """The concepts that a text names, as terms, in the order of the text."""
        units = _units(text)
        found: list[str] = []
        at = 0
        while at < len(units):
            step = 1
            for length in range(self._longest.get(units[at], 0), 0, -1):
                named = self._concepts.get(units[at : at + length])
                if named is not None:
                    found += named
                    step = length
                    break
            at += step
        return found

    def latin(self) -> Iterator[str]:
        """The words of English spellings."""
        return (unit for units in self._concepts for unit in units if unit < CHINESE)

    def chinese(self) -> Iterator[str]:
        """The Chinese spellings."""
        return ("".join(units) for units in self._concepts if units[0] >= CHINESE)

    def facets(self, text: str) -> Iterator[tuple[str, str]]:
        """The facets that a text names, each with its kind, in the order of the text."""
        for concept in self.concepts(text):
            yield from self._facets[concept]

    def read_from(self, concept: str) -> tuple[str, ...]:
        """The broader concepts that hold the answer to a question about this one."""
        return self._read_from.get(concept, ())


def _pairs(facets: str) -> Iterator[tuple[str, str]]:
    for facet in filter(None, facets.split(",")):
        kind, _, values = facet.partition(":")
        yield from ((kind, value) for value in values.split("|"))


def _term(name: str) -> str:
    """The term of a concept. It differs from every word of a text."""
    return f"#{name}"


def _units(text: str) -> Unit:
    return tuple(
        unit if unit >= CHINESE else _singular(unit) for unit in _UNIT.findall(text.lower())
    )


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
