"""Connections to Redis by URL: one server, a cluster, or the primary that sentinels name.

`redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://` (TLS) and `unix://` are URLs of redis-py, with its
query parameters. `redis+cluster://` and `rediss+cluster://` name a node of a cluster.
`redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB` names sentinels, whose primary is
asked; `rediss+sentinel://` uses TLS. A command is sent once: none is repeated by the library.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

SCHEMES = (
    *("redis", "rediss", "unix", "redis+cluster", "rediss+cluster"),
    *("redis+sentinel", "rediss+sentinel"),
)

CONNECT_S = 1.0
ANSWER_S = 1.0
"""How long a connection waits for an answer."""

Command = tuple[Any, ...]


class Connection(Protocol):
    """Sends commands and returns their answers; a command's own error stands in its place."""

    async def execute(self, commands: Sequence[Command]) -> list[Any]: ...


def address_of(url: str) -> str:
    """Where Redis is, for people: without user, password and parameters. Raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"must begin with one of {', '.join(f'{s}://' for s in SCHEMES)}")
    place = parts.netloc.rpartition("@")[2]
    if parts.scheme == "unix":
        return parts.path
    if not place or not url.isprintable():
        raise ValueError("must be of the form redis://USER:PASSWORD@HOST:PORT/DB")
    if parts.scheme.endswith("+sentinel"):
        service = parts.path.strip("/").split("/")[0]
        if not service:
            raise ValueError("must name the service: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE")
        return f"{service} at {place}"
    try:
        is_whole = parts.hostname and parts.port != 0
    except ValueError:  # its text has the port, which may be a password
        is_whole = False
    if not is_whole:
        raise ValueError("must be of the form redis://USER:PASSWORD@HOST:PORT/DB")
    return place


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A connection, which is made when the first command is sent."""
    from redis.asyncio import Redis, RedisCluster
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    options: dict[str, Any] = {
        "socket_timeout": ANSWER_S,
        "socket_connect_timeout": CONNECT_S,
        "retry": Retry(NoBackoff(), 0),
    }
    scheme, rest = url.split(":", 1)
    plain = f"{scheme.partition('+')[0]}:{rest}"
    if scheme.endswith("+cluster"):
        cluster = RedisCluster.from_url(plain, require_full_coverage=False, **options)
        try:
            yield _Cluster(cluster)
        finally:
            await cluster.aclose()
        return
    if scheme.endswith("+sentinel"):
        sentinel, client = _of_sentinels(scheme, url, options)
        clients = [*sentinel.sentinels, client]
    else:
        client = Redis.from_url(plain, **options)
        clients = [client]
    try:
        yield _Server(client)
    finally:
        for one in clients:
            await one.aclose()
            await one.connection_pool.disconnect()


def _of_sentinels(scheme: str, url: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The sentinels, and a client of the primary that they name."""
    from redis.asyncio.sentinel import Sentinel

    parts = urlsplit(url)
    user, _, places = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    hosts = []
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        hosts.append((host or port, int(port) if host else 26379))
    service, _, db = parts.path.strip("/").partition("/")
    given = {
        "username": unquote(name) or None,
        "password": unquote(password) or None,
        "db": int(db or 0),
        "ssl": scheme.startswith("rediss"),
        **options,
    }
    limits = {name: value for name, value in options.items() if name != "retry"}
    sentinel = Sentinel(hosts, sentinel_kwargs=limits, **given)  # type: ignore[no-untyped-call]
    return sentinel, sentinel.master_for(service)


class _Server:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


class _Cluster:
    """A pipeline of a cluster takes no scripts, so each command is sent by itself."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        from redis.exceptions import ResponseError

        answers = await asyncio.gather(
            *(self._client.execute_command(*command) for command in commands),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ResponseError):
                raise answer
        return answers
