"""Redis by URL: with TLS, a user, a socket, as a cluster and behind sentinels."""

import asyncio
import shutil
from pathlib import Path

import pytest

from gateway.sharing.connection import address_of
from gateway.sharing.store import SharedStore
from tests.support.redis import free_port, needs_redis, redis_server
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, needs_redis]


async def works(url: str) -> bool:
    """Whether a script, a value and a beat go through."""
    async with SharedStore.open(url) as store:
        await until(lambda: store.trouble is None)
        await store.ask("SET", store.key("x", tag="a"), "1")
        found = await store.ask("GET", store.key("x", tag="a"))
        return bool(found == b"1") and store.gateways == 1


async def test_a_user_with_a_password(tmp_path: Path) -> None:
    rights = (
        "on",
        ">s3cret",
        "~{finport*",
        "-@all",
        "+@read",
        "+@write",
        "+@scripting",
        "+time",
        "+info",
    )
    async with redis_server(tmp_path) as server:
        await server.tell("ACL", "SETUSER", "finport", *rights)
        await server.tell("ACL", "SETUSER", "default", "off")
        url = server.url.replace("redis://", "redis://finport:s3cret@")
        assert await works(url)
        async with SharedStore.open(url.replace("s3cret", "wrong")) as store:
            assert store.is_away
            assert "wrong" not in str(store.trouble)


async def test_a_unix_socket(tmp_path: Path) -> None:
    async with redis_server(tmp_path, "--unixsocket", str(tmp_path / "s")):
        assert await works(f"unix://{tmp_path / 's'}?db=0")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    made = await asyncio.create_subprocess_exec(
        *("openssl", *make, *names, "-keyout", str(key), "-out", str(certificate)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await made.wait() == 0
    async with redis_server(tmp_path) as plain:
        port = free_port()
        for name, value in (
            ("tls-cert-file", str(certificate)),
            ("tls-key-file", str(key)),
            ("tls-auth-clients", "no"),
            ("tls-port", str(port)),
        ):
            said = await plain.tell("CONFIG", "SET", name, value)
            if said != "OK":
                pytest.skip(f"this redis-server has no TLS: {said}")
        url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"
        assert await works(url)


async def test_a_cluster(tmp_path: Path) -> None:
    async with redis_server(tmp_path, "--cluster-enabled", "yes") as node:
        await node.tell("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        async with asyncio.timeout(30):
            while "cluster_state:ok" not in await node.tell("CLUSTER", "INFO"):
                await asyncio.sleep(0.05)
        assert await works(node.url.replace("redis://", "redis+cluster://").removesuffix("/0"))


async def test_sentinels_name_the_primary(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as primary:
        rules = tmp_path / "sentinel.conf"
        rules.write_text(f"sentinel monitor main 127.0.0.1 {primary.port} 1\n")
        port = free_port()
        sentinel = await asyncio.create_subprocess_exec(
            *("redis-server", str(rules), "--sentinel", "--port", str(port)),
            *("--bind", "127.0.0.1", "--dir", str(tmp_path)),
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            assert await works(f"redis+sentinel://127.0.0.1:{port}/main/0")
        finally:
            sentinel.kill()
            await sentinel.wait()


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:6379", "127.0.0.1:6379", "redis://", "redis://user:s3cret"),
        *("redis+sentinel://127.0.0.1:26379", "redis://host:s3cret/0", "redis://host/s3cret"),
        *("redis+sentinel://host:s3cret/main", "redis+sentinel://host/main/s3cret"),
        *("redis://host?decode_responses=s3cret", "redis://host?db=s3cret", "unix://s3cret"),
        *("redis://u:[s3cret]@host/0", "redis://u:s3cret\u2100@host/0", "unix://u:1/s3cret@/path"),
        "redis+sentinel://u:1/s3cret@host/main",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ValueError, match="must") as refused:
        address_of(url)
    assert "s3cret" not in str(refused.value)


async def test_garbage_in_the_keys_of_all_is_no_harm(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server:
        for name in ("epoch", "clients_version"):
            await server.tell("SET", f"{{finport}}:{name}", "\xff no number")
        assert await works(server.url)
        await server.tell("DEL", "{finport}:gateways")
        await server.tell("SET", "{finport}:gateways", "a text")
        async with SharedStore.open(server.url) as store:
            assert store.readiness == "refuses writes"


def test_an_address_has_no_secrets() -> None:
    assert address_of("redis://user:s3cret@cache:6379/0?ssl_ca_certs=s3cret") == "cache:6379"
    assert address_of("redis+sentinel://u:s3cret@a:1,b:2/main") == "main at a:1,b:2"
