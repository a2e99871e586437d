"""Gateways side by side, the proxies of docs/deployment in front of them, and clients that call."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import CallError
from tests.support.checkout import ROOT
from tests.support.servers import Server, answer, server
from tests.support.waiting import PATIENCE_S, until

DEPLOYMENT = ROOT / "docs" / "deployment"

GATEWAYS = ("10.0.0.11:8000", "10.0.0.12:8000")
"""The addresses of the gateways in the files of docs/deployment."""

METRICS_KEY = "fp_metrics_0451"

SENT = {"POST, 502 internal"}
"""What becomes of a call that is lost with its gateway; a read is made again by the proxy."""

BEGUN = {f"{method}, {how} its answer" for method in ("GET", "POST") for how in ("before", "in")}
"""What becomes of a call of whose answer the proxy has a part when the gateway is lost. Behind
HAProxy without `httpclose`, also of any POST on a connection used before.
"""

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def needs(program: str) -> pytest.MarkDecorator:
    """Skip where a program is not installed."""
    reason = f"{program} is not installed"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def own_address() -> str:
    """A loopback address that nothing else uses, so that a port on it stays free in a restart."""
    return "127." + ".".join(str(random.randint(2, 250)) for _ in range(3))


def substituted(name: str, changes: Mapping[str, str]) -> str:
    """The text of a file of docs/deployment with other addresses; each must stand in it."""
    text = (DEPLOYMENT / name).read_text()
    for old, new in changes.items():
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, new)
    return text


@dataclass
class Fleet:
    """Gateways that can be started again, each at its own address."""

    folder: Path
    options: Sequence[str]
    told: Mapping[str, str]
    addresses: list[str]
    parts: AsyncExitStack
    servers: list[Server] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, *options: str, **told: str) -> AsyncIterator["Fleet"]:
        async with AsyncExitStack() as parts:
            addresses = [own_address() for _ in GATEWAYS]
            fleet = cls(folder, options, told, addresses, parts)
            fleet.servers += await asyncio.gather(*map(fleet._start, range(len(GATEWAYS))))
            yield fleet

    @property
    def pids(self) -> set[int]:
        return {server.process.pid for server in self.servers}

    def changes(self) -> dict[str, str]:
        return dict(zip(GATEWAYS, (f"{host}:8000" for host in self.addresses), strict=True))

    async def restart(self, index: int) -> int:
        """End a gateway in order and start it again; return the id of the new process."""
        self.servers[index].tell(signal.SIGTERM)
        assert (await self.servers[index].ended())[0] == 0
        self.servers[index] = await self._start(index)
        return self.servers[index].process.pid

    async def _start(self, index: int) -> Server:
        own = ("--host", self.addresses[index], "--port", "8000")
        opened = server(self.folder / str(index), *own, *self.options, **self.told)
        return await self.parts.enter_async_context(opened)


@asynccontextmanager
async def proxied(
    proxy: str,
    folder: Path,
    changes: Mapping[str, str],
    listen: str,
    *,
    within: Sequence[str] = (),
) -> AsyncIterator[None]:
    """nginx or HAProxy with its file of docs/deployment, changed so, listening on `listen`.

    `within` is a command that runs another, for example in a network namespace.
    """
    shown = {"nginx": "listen 8080;", "haproxy": "bind :8080"}[proxy]
    word, end = shown.split()[0], ";" * shown.endswith(";")
    name = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[proxy]
    file = folder / name
    file.write_text(substituted(name, {**changes, shown: f"{word} {listen}{end}"}))
    log = folder / f"{proxy}.log"
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(*within, *command(proxy, file)),
            env=os.environ | {"FINPORT_METRICS_KEY": METRICS_KEY},
            stdout=written,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert process.returncode is None, log.read_text()
                with suppress(OSError):
                    (await connected(listen))[1].close()
                    break
                await asyncio.sleep(0.02)
        yield
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def command(proxy: str, file: Path) -> list[str]:
    """The command that runs a proxy in the foreground, as root or as any other user."""
    if proxy == "haproxy":
        return ["haproxy", "-f", str(file)]
    own = f"daemon off; pid {file.parent}/nginx.pid; error_log stderr;"
    if os.geteuid() == 0:
        own += " user root;"  # its workers write to the test's folder
    return ["nginx", "-p", str(file.parent), "-c", str(file), "-g", own]


async def connected(listen: str) -> Wire:
    """A connection to an address HOST:PORT, or to a socket unix:PATH or unix@PATH."""
    if listen.startswith("unix"):
        return await asyncio.open_unix_connection(listen[5:])
    host, _, port = listen.rpartition(":")
    return await asyncio.open_connection(host, int(port))


def request(method: str, path: str, body: object = None, **headers: str) -> bytes:
    """An HTTP request that names the gateway localhost."""
    text = b"" if body is None else json.dumps(body).encode()
    head = {"Host": "localhost", "Content-Length": str(len(text)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", ""]).encode() + text


@dataclass
class Calls:
    """Clients that call without a pause, each on a connection of its own, and what became of it.

    A call is answered, or ends with a typed error of the gateway's form, or is `lost`: its
    connection ended without an answer, or with one in another form.
    """

    connect: Callable[[], Awaitable[Wire]]
    headers: Mapping[str, str]
    sent: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    over: bool = False

    @classmethod
    @asynccontextmanager
    async def under_way(
        cls, connect: Callable[[], Awaitable[Wire]], clients: int = 16, **headers: str
    ) -> AsyncIterator["Calls"]:
        calls = cls(connect, headers)
        tasks = [asyncio.create_task(calls._client(number)) for number in range(clients)]
        try:
            yield calls
            calls.over = True
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def failed(self) -> int:
        """Calls that were not answered, in one way or the other."""
        return self.errors.total() + self.lost.total()

    def __str__(self) -> str:
        return (
            f"{self.sent} calls: {self.answered.total()} answered by {len(self.answered)} "
            f"processes, typed errors {dict(self.errors)}, lost {dict(self.lost)}"
        )

    async def _client(self, number: int) -> None:
        while not self.over:
            reader, writer = await self.connect()
            method = ""
            try:
                is_kept = True
                while is_kept and not self.over:
                    self.turns[number] += 1
                    self.sent += 1
                    asked = self._request(number, self.turns[number])
                    method = asked.partition(b" ")[0].decode()
                    writer.write(asked)
                    status, head, body = await answer(reader)
                    is_kept = "connection: close" not in head
                    self._note(method, status, head, body)
            except asyncio.IncompleteReadError as error:
                self.lost[f"{method}, {'in' if error.partial else 'before'} its answer"] += 1
            except (OSError, ValueError) as error:
                self.lost[f"{method}, {error!r}"] += 1
            finally:
                writer.close()

    async def go_on(self, turns: int = 3) -> None:
        """Until each client has made so many calls that began after this."""
        before = dict(self.turns)
        await until(lambda: all(self.turns[n] > before[n] + turns for n in before))

    def _request(self, number: int, turn: int) -> bytes:
        """By turns a call over MCP, a call whose answer is kept, another one, and a read."""
        if turn % 4 == 3:
            return request("GET", "/v1/tools/get_coin", **self.headers)
        coin = {"uuid": "kept" if turn % 4 == 1 else f"{number}-{turn}"}
        if turn % 4:
            return request("POST", "/v1/tools/get_coin", coin, **self.headers)
        asked = {"name": "call_tool", "arguments": {"name": "get_coin", "arguments": coin}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        return request("POST", "/mcp", message, **self.headers)

    def _note(self, method: str, status: int, head: str, body: Mapping[str, Any]) -> None:
        error = body.get("error")
        if error and "jsonrpc" in body:
            error = error["data"]
        if error:
            assert CallError.from_dict(error).to_dict() == error
            self.errors[f"{method}, {status} {error['code']}"] += 1
        elif status == 200:
            self.answered[int(re.findall("x-request-id: ([0-9a-f]+)-", head)[0], 16)] += 1
        else:
            self.lost[f"{method}, {status} {body}"] += 1
