"""What a suite's paper did, setting by setting, and where its authors publish their data.

A suite declares a `Paper`. `finbench reproduce` prints it, checks what is there, runs with its
options and ends in its tables; `finbench fetch` gets its data. Neither names a suite.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any
from urllib.parse import quote

AS_PAPER = "as the paper"


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


def blob_of(content: bytes) -> str:
    """The git blob id of a content: SHA-1 over its length and itself (Git internals, 10.2)."""
    head = b"blob %d\0" % len(content)
    return sha1(head + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Given:
    """What the user gives a reproduction: the options of `finbench run` by their names."""

    options: Mapping[str, Any]
    tasks: int = 0
    """The number of tasks in the dataset; 0 without one."""
    notes: Sequence[str] = ()

    def has(self, name: str) -> bool:
        return self.options.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        return self.options.get(name)


Here = Callable[[Given], str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the protocol: what the paper or its program did, and what this run does. The
    latter begins with `AS_PAPER`, "differs: " or "cannot be had: ".
    """

    name: str
    paper: str
    here: str | Here = AS_PAPER

    def told(self, given: Given) -> str:
        return self.here if isinstance(self.here, str) else self.here(given)


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a table: its head, and where it stands in `metrics.json`."""

    head: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper. `rows` are published, a figure for each column; `scale` is what a share
    of 1 is there.
    """

    title: str
    columns: Sequence[Column]
    rows: Mapping[str, Sequence[float | None]]
    digits: int = 4
    scale: float = 1.0
    note: str = ""

    def ours(self, metrics: Mapping[str, Any]) -> list[float | None]:
        """The figures of a run in the units of the table."""
        found = []
        for column in self.columns:
            value: Any = metrics
            for name in column.path:
                value = value.get(name) if isinstance(value, Mapping) else None
            found.append(value * self.scale if isinstance(value, int | float) else None)
        return found


@dataclass(frozen=True, slots=True)
class Paper:
    """A suite's paper. `options` are those of `finbench run` by which a run is like it, `wanted`
    the names of options that the user must give, each with what it is for. `cost` is what a run
    asks of the model and the judge for each task, in words.
    """

    title: str
    source: str
    program: str
    settings: Sequence[Setting]
    tables: Sequence[Table]
    options: Sequence[str]
    wanted: Mapping[str, str]
    cost: str
    repository: Repository | None = None
    differences: Sequence[str] = field(default=())
    """Differences that no setting removes."""


def dataset_of(repository: Repository, folder: Path) -> list[str]:
    """What differs between the published files and those below `folder`, a sentence each."""
    found = []
    for file in repository.files:
        place = folder / file.path
        if not place.is_file():
            found.append(f"{file.path} is not there")
        elif file.blob and blob_of(place.read_bytes()) != file.blob:
            found.append(f"{file.path} is not the published one (git blob {file.blob})")
    return found
