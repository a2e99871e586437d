"""Hosts as network namespaces of this machine, each with a link to a bridge that can be cut."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Network:
    """The hosts behind a front host, by address; the front host is 10.0.0.1."""

    name: str
    hosts: Sequence[str]

    @property
    def front(self) -> list[str]:
        """A command that runs another on the front host."""
        return self._within("front")

    def host(self, address: str) -> list[str]:
        """A command that runs another on one of the hosts."""
        return self._within(str(self.hosts.index(address)))

    async def set_front(self, settings: str) -> None:
        """Apply the lines of a file as sysctl.conf to the front host."""
        for line in settings.splitlines():
            if line and not line.startswith("#"):
                name, value = (part.strip() for part in line.split("="))
                write = f"echo {value} > /proc/sys/{name.replace('.', '/')}"
                code, said = await _run(*self.front, "sh", "-c", write)
                assert code == 0, said

    async def cut(self, address: str) -> None:
        """From now on no packet reaches this host or leaves it, and nobody is told."""
        await self._link(address, "down")

    async def mend(self, address: str) -> None:
        await self._link(address, "up")

    @classmethod
    @asynccontextmanager
    async def open(cls, *hosts: str) -> AsyncIterator["Network"]:
        """Skips the test where namespaces can't be made. `hosts` are addresses in 10.0.0.0/24."""
        if shutil.which("ip") is None or os.geteuid():
            pytest.skip("network namespaces need `ip` and root")
        network = cls(f"finport-{os.getpid()}", hosts)
        async with AsyncExitStack() as parts:
            for place in ("front", *map(str, range(len(hosts)))):
                code, said = await _run("ip", "netns", "add", network._name(place))
                if code:
                    pytest.skip(f"no network namespace can be made here: {said}")
                parts.push_async_callback(_ip, "netns", "delete", network._name(place))
                await _ip("-n", network._name(place), "link", "set", "lo", "up")
            await network._connect()
            yield network

    async def _connect(self) -> None:
        front = ("-n", self._name("front"))
        await _ip(*front, "link", "add", "bridge", "type", "bridge")
        await _ip(*front, "address", "add", "10.0.0.1/24", "dev", "bridge")
        await _ip(*front, "link", "set", "bridge", "up")
        for index, address in enumerate(self.hosts):
            own = ("-n", self._name(str(index)))
            peer = ("peer", "name", "eth0", "netns", self._name(str(index)))
            await _ip(*front, "link", "add", f"port{index}", "type", "veth", *peer)
            await _ip(*front, "link", "set", f"port{index}", "master", "bridge", "up")
            await _ip(*own, "address", "add", f"{address}/24", "dev", "eth0")
            await _ip(*own, "link", "set", "eth0", "up")

    async def _link(self, address: str, state: str) -> None:
        port = f"port{self.hosts.index(address)}"
        await _ip("-n", self._name("front"), "link", "set", port, state)

    def _name(self, place: str) -> str:
        return f"{self.name}-{place}"

    def _within(self, place: str) -> list[str]:
        return ["ip", "netns", "exec", self._name(place)]


async def _ip(*words: str) -> None:
    code, said = await _run("ip", *words)
    assert code == 0, f"ip {' '.join(words)}: {said}"


async def _run(*words: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode().strip()
