"""Keys of clients that several gateways share: made or revoked on one host, it is so on all."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway import GatewaySettings
from gateway.access import keys
from gateway.access.clients import Client, Clients
from gateway.access.rejection import RequestRejected
from gateway.settings import SettingsError
from gateway.sharing.keys import copy_of
from gateway.sharing.store import SharedStore
from tests.support.commands import finport
from tests.support.redis import RedisServer, needs_redis, redis_server
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.anyio, needs_redis]


def settings_of(redis: RedisServer, folder: Path) -> GatewaySettings:
    return GatewaySettings(
        clients_file=folder / "clients.json", redis_url=SecretStr(redis.url), cache_dir=folder
    )


@asynccontextmanager
async def clients(redis: RedisServer, folder: Path) -> AsyncIterator[Clients]:
    async with (
        SharedStore.open(redis.url) as store,
        Clients.open(settings_of(redis, folder), check_s=0.2, store=store) as opened,
    ):
        yield opened


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[tuple[RedisServer, Clients, Clients]]:
    """The clients of two hosts, `a` and `b`, which share a Redis."""
    async with (
        redis_server(folder) as redis,
        clients(redis, folder / "a") as a,
        clients(redis, folder / "b") as b,
    ):
        yield redis, a, b


def may_call(clients: Clients, key: str) -> bool:
    try:
        clients.authenticate(key)
    except RequestRejected:
        return False
    return True


async def told(redis: RedisServer, folder: Path, *words: str) -> Any:
    """What `finport keys` says on a host."""
    own = {"FINPORT_CLIENTS_FILE": str(folder / "clients.json"), "FINPORT_REDIS_URL": redis.url}
    done = await asyncio.to_thread(lambda: finport("keys", *words, cache=folder, **own))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stdout


async def test_a_key_made_on_one_host_is_known_and_revoked_on_all(tmp_path: Path) -> None:
    async with two(tmp_path) as (redis, a, b):
        assert not b.required
        key = (await told(redis, tmp_path / "a", "add", "desk", "--json"))["key"]
        await until(lambda: may_call(a, key) and may_call(b, key))
        await told(redis, tmp_path / "elsewhere", "revoke", "desk")
        await until(lambda: not may_call(a, key) and not may_call(b, key))
        assert b.required
        shown = await told(redis, tmp_path / "a", "list", "--json")
        assert [row["revoked_at"] is None for row in shown] == [False]


async def test_an_emptied_redis_brings_no_revoked_key_back(tmp_path: Path) -> None:
    async with two(tmp_path) as (redis, a, b):
        key, entry = keys.add(tmp_path / "a" / "clients.json", "desk")
        await until(lambda: may_call(b, key))
        keys.revoke(tmp_path / "a" / "clients.json", entry.id)
        await until(lambda: not may_call(b, key))
        await redis.kill()
        await redis.start()
        await until(lambda: a._shared is not None and not a._shared.store.is_away)
        async with clients(redis, tmp_path / "c") as c:
            await until(lambda: c.required)
            assert not may_call(c, key)


async def test_what_was_shared_holds_while_redis_is_away(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis:
        async with clients(redis, tmp_path / "a"), clients(redis, tmp_path / "b") as b:
            key, _ = keys.add(tmp_path / "a" / "clients.json", "desk")
            await until(lambda: may_call(b, key))
            await until(copy_of(tmp_path / "b" / "clients.json").exists)
        await redis.kill()
        async with clients(redis, tmp_path / "b") as again:
            assert again.required
            assert may_call(again, key)


async def test_redis_holds_no_key_and_takes_no_entry_that_is_none(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis, clients(redis, tmp_path / "a") as a:
        key, entry = keys.add(tmp_path / "a" / "clients.json", "desk")
        await until(lambda: may_call(a, key))
        async with SharedStore.open(redis.url) as store:
            async with asyncio.timeout(PATIENCE_S):
                while not (text := await store.ask("HGETALL", store.key("clients"))):
                    await asyncio.sleep(0.01)
            assert key not in str(text)
            await store.ask("HSET", store.key("clients"), "bad", '{"id": "bad", "revoked_at": 1}')
            await store.ask("SET", store.key("clients_version"), "7")
        async with clients(redis, tmp_path / "b") as b:
            assert may_call(b, key)
            assert [client.id for client in b] == [entry.id]


async def test_what_changed_while_redis_was_away_is_told_when_it_is_back(tmp_path: Path) -> None:
    async with two(tmp_path) as (redis, a, b):
        key, entry = keys.add(tmp_path / "a" / "clients.json", "desk")
        await until(lambda: may_call(b, key))
        redis.pause()
        await until(lambda: a._shared is not None and a._shared.store.is_away)
        keys.revoke(tmp_path / "a" / "clients.json", entry.id)
        await until(lambda: not may_call(a, key))
        await until(lambda: a._untold)
        redis.resume()
        await until(lambda: not may_call(b, key))


async def test_one_key_more_is_no_work_for_all_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes from the file or from Redis, only what changed is parsed and applied."""
    number, file = 1_000, tmp_path / "a" / "clients.json"
    digests = [keys.digest_of(f"key {n}") for n in range(number)]
    file.parent.mkdir()
    file.write_bytes(
        keys.text_with(
            keys.KeyEntry(id=digest[:8], name=f"n{n}", sha256=digest)
            for n, digest in enumerate(digests)
        )
    )
    work: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        does = getattr(owner, name)

        def counted(*given: Any) -> Any:
            work[name] += 1
            return does(*given)

        monkeypatch.setattr(owner, name, counted)

    async with two(tmp_path) as (redis, a, b):
        await until(lambda: len(list(b)) == number)
        count(keys, "is_name")
        count(Client, "change")
        key = (await told(redis, tmp_path / "a", "add", "desk", "--json"))["key"]
        await until(lambda: may_call(a, key) and may_call(b, key))
        assert work["change"] == 2, "a new client in each of the two"
        assert work["is_name"] < 10
        assert all(may_call(b, f"key {n}") for n in range(number))
        keys.revoke(file, "n7")
        await until(lambda: not may_call(b, "key 7"))
        assert not may_call(a, "key 7")
        assert len(list(b)) == number


async def test_a_file_that_was_edited_by_hand_is_read(tmp_path: Path) -> None:
    file = tmp_path / "clients.json"
    _, entry = keys.add(file, "desk")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=4))
    assert keys.read(file) == (entry,)
    file.write_bytes(keys.text_with([entry]).replace(b"desk", b"no name"))
    with pytest.raises(SettingsError, match=r"a name has 1 to 64.* at clients\.0\.name"):
        keys.read(file)
    file.write_bytes(keys.text_with([]))
    assert keys.read(file) == ()
