"""What a suite's paper did, setting by setting, and where its authors publish their data.

A suite declares a `Paper`. `finbench reproduce` prints it, checks what is there, runs with its
options and ends in its tables; `finbench fetch` gets its data. Neither names a suite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

AS_PAPER = "as the paper"
NO_DATA = "cannot be had: without --dataset"
DECODING = (
    *("body", "temperature", "top_p", "max_tokens", "max_completion_tokens"),
    "reasoning_effort",
)
"""The options that say how a model decodes."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A published file: its path in the repository, and its git blob id where it is known here, by
    which its content is checked. One with `is_data` is read as (a part of) the dataset.
    """

    path: str
    blob: str = ""
    is_data: bool = True


@dataclass(frozen=True, slots=True)
class Repository:
    """Where data is published: a GitHub repository at a revision."""

    name: str
    revision: str
    files: Sequence[DataFile]
    licence: str

    def url(self, file: DataFile) -> str:
        return f"https://raw.githubusercontent.com/{self.name}/{self.revision}/{quote(file.path)}"

    def differences(self, given: Path) -> list[str]:
        """What differs between the published data and those at `given`, a clone, a folder of it or
        a file, under any names: a sentence for each published file. It reads them. Raises
        `OSError`.
        """
        found = []
        every = [given] if given.is_file() else islice(given.rglob("*.json*"), MOST_FILES)
        small = (one for one in every if one.is_file() and one.stat().st_size <= MOST_BYTES)
        blobs = {blob_of(one.read_bytes()) for one in small}
        for file in self.files:
            if not file.is_data or file.blob in blobs:
                continue
            if not file.blob:
                found.append(
                    f"not compared: no checksum of the published {file.path} is known here"
                )
            else:
                text = f"the published {file.path} (git blob {file.blob}) is not in {given}"
                is_there = any(one.is_file() for one in places(given, file))
                found.append(f"{text}; a file of this name has other content" if is_there else text)
        return found


MOST_FILES = 200
"""The files of a dataset that are compared with the published ones."""

MOST_BYTES = 256 * 2**20
"""The largest file that is fetched or compared."""


def places(given: Path, file: DataFile) -> Iterator[Path]:
    """Where a published file may be at what a user has: a clone, a folder of it, or the file."""
    name = Path(file.path).name
    if given.is_file():
        yield from (given,) if given.name == name else ()
        return
    yield given / file.path
    yield given / file.path.partition("/")[2]
    yield given / name


def blob_of(content: bytes) -> str:
    """The git blob id of a content: SHA-1 over its length and itself (Git internals, 10.2)."""
    head = b"blob %d\0" % len(content)
    return sha1(head + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Given:
    """What a reproduction is run with: the options of `finbench run` by their names, and the tasks
    of the dataset, 0 without one.
    """

    options: Mapping[str, Any]
    changed: Mapping[str, str] = field(default_factory=dict)
    """What the user gave in place of the paper's, by the name of the option, as it is typed."""
    suite: str = ""
    tasks: int = 0
    notes: Sequence[str] = ()

    def __getitem__(self, name: str) -> Any:
        return self.options.get(name)

    def named(self, option: str, name: str) -> str:
        """The value of `name` in a repeatable option NAME=VALUE, or nothing."""
        return self.pairs(option).get(name, "")

    def pairs(self, option: str) -> dict[str, str]:
        """The values of a repeatable option NAME=VALUE."""
        return dict(text.partition("=")[::2] for text in self.options.get(option) or ())


Here = Callable[[Given], str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the protocol: what the paper or its program did, and what this run does, which
    begins with `AS_PAPER`, "differs: " or "cannot be had: ". `options` are those that set it: a
    value of the user's differs. `tells` are further ones, of which `here` tells.
    """

    name: str
    paper: str
    here: str | Here = AS_PAPER
    options: Sequence[str] = ()
    tells: Sequence[str] = ()

    def told(self, given: Given) -> str:
        typed = [given.changed[name] for name in self.options if name in given.changed]
        if typed:
            return f"differs: {', '.join(typed)}"
        return self.here if isinstance(self.here, str) else self.here(given)


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a table: its head, where it stands in `metrics.json`, and the factor from there
    to the table, such as 100 for percent.
    """

    head: str
    path: tuple[str, ...]
    scale: float = 1

    def of(self, metrics: Mapping[str, Any]) -> float | None:
        value: Any = metrics
        for name in self.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value * self.scale if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper: `rows` are published, a figure for each column. `baselines` are further
    rows of a run, by their columns.
    """

    title: str
    columns: Sequence[Column]
    rows: Mapping[str, Sequence[float | None]]
    digits: int = 4
    note: str = ""
    baselines: Mapping[str, Sequence[Column]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paper:
    """A suite's paper. `options` are those of `finbench run` by which a run is like it: each group
    of them stands under the options of the user's that replace it. `implied` are further ones that
    an option of the user's brings with it, and `wanted` the options that the user must give, each
    with what it is for. `cost` is what a run asks of models, in words.
    """

    title: str
    source: str
    program: str
    settings: Sequence[Setting]
    tables: Sequence[Table]
    options: Mapping[tuple[str, ...], Sequence[str]]
    wanted: Mapping[str, str]
    cost: str
    implied: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repeats: int = 1
    """The episodes of a task."""
    repository: Repository | None = None
    differences: Sequence[str] = ()
    """Differences that no setting removes."""
