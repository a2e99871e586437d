"""A backup by the commands of docs/deploy.md, taken while a gateway runs, can be restored."""

import asyncio
import json
import re
import signal
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.simulator import SimulatedUpstream
from gateway import GatewaySettings
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.fleets import needs
from tests.support.servers import FINPORT, environment, server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

HOST = "coinranking1.p.rapidapi.com"


def shown(host: Path, live: str) -> list[str]:
    """The commands that back up and that restore, for a machine whose root is `host`, and whose
    answers are in the folder `live`.
    """
    text = (ROOT / "docs" / "deploy.md").read_text().partition("## Backup and restore")[2]
    backup, restore, *_ = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    own = re.sub("^(systemctl|finport) .*\n", "", restore, flags=re.MULTILINE)
    blocks = (f"set -e\n{block}".replace("/live", f"/{live}") for block in (backup, own))
    return [block.replace("/var/", f"{host}/var/") for block in blocks]


async def ran(*words: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    return said


@needs("sqlite3")
async def test_a_backup_keeps_quotas_and_keys(catalog: Catalog, tmp_path: Path) -> None:
    host = tmp_path / "host"
    cache, backups = host / "var/cache/finport", host / "var/backups/finport"
    clients = host / "var/lib/finport/clients.json"
    cache.mkdir(parents=True)
    sent, over = count(1), asyncio.Event()
    answered = 0

    async with SimulatedUpstream.open(catalog) as simulator:
        told = {
            "FINPORT_UPSTREAM": "live",
            "FINPORT_RAPIDAPI_KEYS": "planted-key-0451",
            "FINPORT_RAPIDAPI_BASE_URL": simulator.base_url,
            "FINPORT_CACHE_DIR": str(cache),
            "FINPORT_CLIENTS_FILE": str(clients),
            "FINPORT_USAGE": "true",
        }
        origin = GatewaySettings(upstream="live", rapidapi_base_url=simulator.base_url)
        backup, restore = shown(host, origin.cache_name)
        whole = environment(tmp_path / "home") | told

        async def quota(folder: Path) -> list[dict[str, Any]]:
            env = whole | {"FINPORT_CACHE_DIR": str(folder)}
            rows: list[dict[str, Any]] = json.loads(await ran(*FINPORT, "quota", "--json", **env))
            return [{name: row[name] for name in ("host", "span", "used")} for row in rows]

        async def used() -> tuple[int, int]:
            """The calls of the client today, by its quota and by its usage."""
            found = json.loads(await ran(*FINPORT, "usage", "--json", **whole))
            calls = sum(row["calls"] for row in found["usage"])
            return found["quotas"][0]["used"], calls

        said = json.loads(
            await ran(*FINPORT, "keys", "add", "desk", "--per-day", "9999", "--json", **whole)
        )
        head = {"X-Api-Key": said["key"]}
        old = json.loads(await ran(*FINPORT, "keys", "add", "old", "--json", **whole))
        await ran(*FINPORT, "keys", "revoke", "old", **whole)

        async with aiohttp.ClientSession() as client:

            async def call(url: str, **headers: str) -> int:
                coin = {"uuid": f"{next(sent)}"}
                where = f"{url}/v1/tools/get_coin"
                async with client.post(where, json=coin, headers=headers) as response:
                    await response.read()
                    return response.status

            async def go_on(url: str) -> None:
                nonlocal answered
                while not over.is_set():
                    assert await call(url, **head) == 200
                    answered += 1

            async with server(tmp_path / "home", **told) as gateway:
                calling = asyncio.create_task(go_on(gateway.url))
                await until(lambda: answered > 20 or calling.done())
                while not (await used())[1]:  # it is written once a second
                    assert not calling.done()
                before = answered
                await ran("bash", "-c", backup, **whole)
                during = answered
                await until(lambda: answered > during + 20 or calling.done())
                over.set()
                await calling
                gateway.tell(signal.SIGKILL)
                await gateway.process.wait()

            kept = await quota(backups)
            assert any(row["host"] == HOST and row["used"] >= before for row in kept)
            for name in ("quota", "client-quotas", "usage"):
                (cache / f"{name}.sqlite").write_bytes(b"lost" * 1024)
            clients.unlink()
            await ran("bash", "-c", restore, **whole)
            assert await quota(cache) == kept
            calls, counted = await used()
            assert calls >= before
            assert counted > 0

            async with server(tmp_path / "home", **told) as gateway:
                assert await call(gateway.url, **head) == 200
                assert await call(gateway.url, **{"X-Api-Key": old["key"]}) == 401
