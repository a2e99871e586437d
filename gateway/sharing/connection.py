"""Connections to Redis by URL: one server, a cluster, or the primary that sentinels name.

`redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://` (TLS) and `unix://` are URLs of redis-py, with its
query parameters for TLS. `redis+cluster://` and `rediss+cluster://` name a node of a cluster.
`redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB` names sentinels, whose primary is
asked; `rediss+sentinel://` uses TLS. A command is sent once: none is repeated by the library.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = (
    *("redis", "rediss", "unix", "redis+cluster", "rediss+cluster"),
    *("redis+sentinel", "rediss+sentinel"),
)

SENTINEL_PORT = 26379

CONNECT_S = 1.0
ANSWER_S = 1.0
"""How long a connection waits for an answer."""

Command = tuple[Any, ...]

_FORM = "redis://USER:PASSWORD@HOST:PORT/DB"
_SENTINEL_FORM = "redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB"
_PARAMETERS = (
    *("db", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"),
    *("ssl_cert_reqs", "ssl_check_hostname"),
)
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[1-9][0-9]{0,4})?")


Execute = Callable[[Sequence[Command]], Awaitable[list[Any]]]
"""Sends commands and returns their answers; a command's own error stands in its place."""


def address_of(url: str) -> str:
    """Where Redis is, for people: without user, password and parameters. Raises `ValueError`, whose
    text has no part of the URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its text has a part of the URL
        raise ValueError(f"must be of the form {_FORM}; escape marks in it as %40 or %2F") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"must begin with one of {', '.join(f'{s}://' for s in SCHEMES)}")
    _check_parameters(parts.query)
    if "@" in parts.path:  # a slash before it may be in a password
        raise ValueError(f"must be of the form {_FORM}; escape marks in it as %40 or %2F")
    if parts.scheme == "unix":
        if parts.netloc.rpartition("@")[2] or len(parts.path) < len("/x"):
            raise ValueError("must be of the form unix:///PATH")
        return parts.path
    places = parts.netloc.rpartition("@")[2]
    is_sentinels = parts.scheme.endswith("+sentinel")
    form = _SENTINEL_FORM if is_sentinels else _FORM
    service, _, db = parts.path.strip("/").partition("/") if is_sentinels else ("", "", "")
    db = db if is_sentinels else parts.path.strip("/")
    every = places.split(",") if is_sentinels else [places]
    is_whole = all(_PLACE.fullmatch(place) for place in every) and (service or not is_sentinels)
    if not is_whole or not url.isprintable() or not (db.isdecimal() or not db):
        raise ValueError(f"must be of the form {form}")
    return f"{service} at {places}" if is_sentinels else places


def _check_parameters(query: str) -> None:
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise ValueError(f"must have no other parameters than {', '.join(_PARAMETERS)}")
        if name == "db" and not value.isdecimal():
            raise ValueError("must have a number as its parameter db")


def is_late(error: Exception) -> bool:
    """Whether an error of the library says that no answer came in time."""
    from redis.exceptions import TimeoutError as LateError

    return isinstance(error, LateError)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Execute]:
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
            yield partial(_by_itself, cluster)
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
        yield partial(_together, client)
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
        found = urlsplit(f"//{place}")
        hosts.append((found.hostname, found.port or SENTINEL_PORT))
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


async def _together(client: Any, commands: Sequence[Command]) -> list[Any]:
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = await pipeline.execute(raise_on_error=False)
    return answers


async def _by_itself(cluster: Any, commands: Sequence[Command]) -> list[Any]:
    """A pipeline of a cluster takes no scripts, so each command is sent by itself."""
    from redis.exceptions import ResponseError

    sent = (cluster.execute_command(*command) for command in commands)
    answers = await asyncio.gather(*sent, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, ResponseError):
            raise answer
    return answers
