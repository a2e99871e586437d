"""The keys of clients that several gateways share through Redis.

Each gateway publishes the entries of its clients file and learns those of the others, so a key that
was made or revoked on one host is so on all. Whatever said that a key is revoked is right. A copy
of what was learned is kept beside the clients file, and read while Redis is away. Redis holds
hashes of keys only. Whoever may write to it may let clients in, so it belongs to the operator.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from gateway.access.keys import KeyEntry, entries_in, entry_in, text_of, text_with
from gateway.settings import GatewaySettings, SettingsError
from gateway.sharing.store import SharedStore
from manifests.common.files import replaced_file

log = logging.getLogger("finport")

AT_ONCE = 100
"""Entries that are read or published with one command: 1 ms of work for the event loop."""


class SharedKeys:
    """The entries in Redis, and the copy of them on this machine."""

    def __init__(self, store: SharedStore, clients_file: Path) -> None:
        self.store = store
        self._copy = copy_of(clients_file)

    async def fetch(self) -> tuple[KeyEntry, ...]:
        """All published entries; invalid ones are left out. Raises `StoreError`."""
        entries: dict[str, KeyEntry] = {}
        cursor = -1
        while cursor:
            asked = ("HSCAN", self.store.key("clients"), max(cursor, 0), "COUNT", AT_ONCE)
            cursor, said = await self.store.ask(*asked, lane="reads")
            for text in said.values():
                try:
                    entry = entry_in(text)
                    entries[entry.id] = entry
                except ValidationError:
                    log.warning("Redis holds a client that is none; it is left out")
        return tuple(entries.values())

    async def publish(self, entries: Sequence[KeyEntry]) -> None:
        """Let all gateways know of these entries. Raises `StoreError`."""
        keys = [self.store.key(name) for name in ("clients", "clients_version")]
        for first in range(0, len(entries), AT_ONCE):
            some = entries[first : first + AT_ONCE]
            pairs = [part for entry in some for part in (entry.id, entry.model_dump_json())]
            await self.store.run("put_clients", keys, pairs)

    def remember(self, entries: Iterable[KeyEntry]) -> None:
        """Replace the copy. Blocks. Raises `OSError`."""
        self._copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replaced_file(self._copy, 0o600) as file:
            file.write(text_with(entries))


def copy_of(clients_file: Path) -> Path:
    """Where the copy of the shared entries is."""
    return clients_file.with_name(f"{clients_file.stem}.shared.json")


def remembered(clients_file: Path) -> tuple[KeyEntry, ...]:
    """The entries in the copy. Blocks. Raises `SettingsError`."""
    path = copy_of(clients_file)
    return entries_in(path, text_of(path))


def merged(*every: Iterable[KeyEntry]) -> tuple[KeyEntry, ...]:
    """The entries by id: a revoked one where there is one, else the last."""
    known: dict[str, KeyEntry] = {}
    for entries in every:
        for entry in entries:
            before = known.get(entry.id)
            if before is None or before.revoked_at is None:
                known[entry.id] = entry
    return tuple(known.values())


def unpublished(own: Iterable[KeyEntry], fetched: Iterable[KeyEntry]) -> list[KeyEntry]:
    """What Redis, as it was fetched, does not know."""
    known = {entry.id: entry for entry in fetched}
    return [
        entry
        for entry in own
        if entry.id not in known
        or (entry.revoked_at is not None and known[entry.id].revoked_at is None)
    ]


async def learn(settings: GatewaySettings) -> tuple[KeyEntry, ...]:
    """Fetch the shared entries once and keep a copy, for a command.

    Raises `StoreError` if Redis can't be asked, and `SettingsError` if the copy can't be written.
    """
    if settings.redis_url is None:
        return ()
    url = settings.redis_url.get_secret_value()
    async with SharedStore.open(url, settings.redis_prefix, beats=False) as store:
        shared = SharedKeys(store, settings.clients_file)
        entries = merged(remembered(settings.clients_file), await shared.fetch())
        try:
            shared.remember(entries)
        except OSError as error:
            raise SettingsError(f"{copy_of(settings.clients_file)}: {error.strerror}") from None
        return entries


async def tell(settings: GatewaySettings, entry: KeyEntry) -> None:
    """Publish one entry, for a command. Raises `StoreError`."""
    if settings.redis_url is None:
        return
    url = settings.redis_url.get_secret_value()
    async with SharedStore.open(url, settings.redis_prefix, beats=False) as store:
        await SharedKeys(store, settings.clients_file).publish([entry])
