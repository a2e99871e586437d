"""The keys of the gateway's clients, as they are stored: in the settings and in the clients file.

A key is stored as its SHA-256. Keys made here have 256 random bits, so a slow hash would add
nothing. No key appears in a repr or an error. The file is replaced as a whole, by one process at a
time.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from gateway.compress.budget import LIMITS
from gateway.context import StandInUse
from gateway.grant import Grant
from gateway.settings import MOST_PER_DAY, GatewaySettings, SettingsError
from manifests.common.files import replaced_file
from manifests.common.regular_file import read_text
from manifests.selection import EVERY_TOOL, Selection, SelectionError

NAME_FORM = "a name has 1 to 64 of A-Z a-z 0-9 . _ - and is not 8 hex digits, as ids are"

MOST_KNOWN = 100_000
"""How many parsed keys are remembered, each about 2 KB."""

_HEAD, _BETWEEN, _TAIL = b'{"clients": [\n', b",\n", b"\n]}\n"
_NAME = re.compile(r"(?![0-9a-f]{8}\Z)[A-Za-z0-9._-]{1,64}")


class KeyRefused(Exception):
    """The key can't be made or revoked; the text says why."""


def is_name(text: str) -> bool:
    """Whether a client may be named so (`NAME_FORM`)."""
    return _NAME.fullmatch(text) is not None


def _checked_name(text: str) -> str:
    if not is_name(text):
        raise ValueError(NAME_FORM)
    return text


def _checked_tools(text: str) -> str:
    try:
        return str(Selection.parse(text))
    except SelectionError:
        raise ValueError("it selects no tools") from None


class KeyEntry(BaseModel):
    """One key as the clients file holds it. `created_at` is None if it was not recorded."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    id: str
    name: Annotated[str, AfterValidator(_checked_name)]
    sha256: str = Field(pattern="^[0-9a-f]{64}$", repr=False)
    tools: Annotated[str, AfterValidator(_checked_tools)] = "all"
    transactional: bool = False
    per_second: float | None = Field(None, ge=1e-4, le=1e6, allow_inf_nan=False)
    at_once: int | None = Field(None, ge=1, le=1_000_000)
    per_day: int | None = Field(None, ge=1, le=MOST_PER_DAY)
    max_tokens: int | None = Field(None, ge=LIMITS["tokens"][0], le=LIMITS["tokens"][1])
    stand_in: StandInUse | None = None
    created_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _id_is_of_the_key(self) -> Self:
        if self.id != self.sha256[:8]:
            raise ValueError("an id is the first 8 digits of its sha256")
        return self

    @property
    def grant(self) -> Grant:
        return Grant(Selection.parse(self.tools), self.transactional)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    clients: tuple[KeyEntry, ...]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        if len({entry.id for entry in self.clients}) < len(self.clients):
            raise ValueError("two clients have one id")
        return self


def settings_entries(settings: GatewaySettings) -> tuple[KeyEntry, ...]:
    """The keys in the settings, each `KEY` or `NAME=KEY`. Raises `SettingsError`."""
    entries = []
    for number, secret in enumerate(settings.api_keys, 1):
        name, equals, key = secret.get_secret_value().partition("=")
        digest = digest_of(key if equals else name)
        if not equals:
            name = f"key-{digest[:8]}"
        elif not key.strip("=") or not is_name(name):
            text = f"setting api_keys: entry {number} is neither KEY nor NAME=KEY ({NAME_FORM};"
            raise SettingsError(f"{text} a key with an = in it needs a name before it)")
        may = settings.transactional
        entries.append(KeyEntry(id=digest[:8], name=name, sha256=digest, transactional=may))
    return tuple(entries)


def read(path: Path) -> tuple[KeyEntry, ...]:
    """Every key in the clients file, revoked ones too. Raises `SettingsError`."""
    return entries_in(path, text_of(path))


def add(
    path: Path, name: str, *, tools: Selection = EVERY_TOOL, **limits: Any
) -> tuple[str, KeyEntry]:
    """Make a key. It is returned this once; the file holds its hash. `limits` are those of a
    `KeyEntry`.

    Raises `KeyRefused` and, if the file can't be read or written, `SettingsError`.
    """
    with _changing(path) as entries:
        if any(entry.name == name and entry.revoked_at is None for entry in entries):
            raise KeyRefused(f"a client named {name} has a key already; revoke it first")
        taken = {entry.id for entry in entries}
        key = _new_key()
        while digest_of(key)[:8] in taken:
            key = _new_key()
        digest, given = digest_of(key), {**limits, "tools": str(tools), "created_at": _now()}
        try:
            entry = KeyEntry(id=digest[:8], name=name, sha256=digest, **given)
        except ValidationError as error:
            raise KeyRefused(_reason(error)) from None
        entries.append(entry)
    return key, entry


def revoke(path: Path, name_or_id: str) -> KeyEntry:
    """Revoke a key; its entry stays. Raises `KeyRefused` and `SettingsError`."""
    with _changing(path) as entries:
        for place, entry in enumerate(entries):
            if entry.revoked_at is None and name_or_id in (entry.name, entry.id):
                entries[place] = revoked(entry)
                return entries[place]
        # What was given is not repeated: it may be a key.
        text = f"no key in {path} that is not revoked has this name or id"
        raise KeyRefused(f"{text}; `finport keys list` shows all")


def text_of(path: Path) -> bytes | None:
    """The contents of the clients file; None if there is no file. Raises `SettingsError`."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"clients file {path} can't be read: {error.strerror}") from None


@lru_cache(MOST_KNOWN)
def entry_in(text: bytes) -> KeyEntry:
    """The key in one JSON object. Equal texts give the same object, so that ten thousand keys are
    neither parsed nor compared anew because one was added. Raises `ValidationError`.
    """
    return KeyEntry.model_validate_json(text)


def entries_in(path: Path, text: bytes | None) -> tuple[KeyEntry, ...]:
    """The keys in the contents of a clients file. Blocks. Raises `SettingsError`."""
    if text is None:
        return ()
    try:
        if text.startswith(_HEAD) and text.endswith(_TAIL):
            with suppress(ValidationError):  # somebody has edited it
                lines = text[len(_HEAD) : -len(_TAIL)].split(_BETWEEN)
                return _File(clients=tuple(map(entry_in, lines))).clients
        clients = _File.model_validate_json(text).clients
        return tuple(entry_in(_text_of(entry)) for entry in clients)
    except ValidationError as error:
        raise SettingsError(f"clients file {path}: {_reason(error)}") from None


def text_with(entries: Iterable[KeyEntry]) -> bytes:
    """The contents of a file with these keys, one on each line."""
    return _HEAD + _BETWEEN.join(map(_text_of, entries)) + _TAIL


def _text_of(entry: KeyEntry) -> bytes:
    return entry.model_dump_json().encode()


def revoked(entry: KeyEntry) -> KeyEntry:
    """The entry, revoked now."""
    return entry.model_copy(update={"revoked_at": _now()})


@contextmanager
def _changing(path: Path) -> Iterator[list[KeyEntry]]:
    """The keys in the file, to be changed; written when the context ends without an exception."""
    path = Path(os.path.realpath(path))  # a link to the file stays a link
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(lock):
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = [*read(path)]
            yield entries
            with replaced_file(path, 0o600) as file:
                file.write(text_with(entries))
    except OSError as error:
        raise SettingsError(f"clients file {path} can't be written: {error.strerror}") from None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    # An unexpected field is not named: it may be a key.
    known = {"clients", *KeyEntry.model_fields}
    place = ".".join(str(p) for p in first["loc"] if isinstance(p, int) or p in known)
    return first["msg"].removeprefix("Value error, ") + (f" at {place}" if place else "")


def _new_key() -> str:
    return f"fp_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    """The hash that is stored of a key, in hexadecimal digits; its first 8 are the client's id."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()  # headers may hold surrogates


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
