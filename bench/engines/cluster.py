"""The Ray cluster of a run: one that RAY_ADDRESS names, or one of this machine that ends with it.

What Ray does at once, and what blocks, happens in one thread. It lives as long as the process: Ray
ties the processes that it starts to the thread that started them.
"""

import asyncio
import logging
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bench.own import is_users, words_of

START_S = 120.0
"""How long a cluster may take to start or to answer."""

CONNECT_S = 5.0
"""How long the connection to a cluster and its first bytes may take."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What begins a connection of HTTP/2, on which gRPC rests, with empty settings (RFC 9113, 3.4)."""

_FRAME_HEAD, _SETTINGS = 9, 4
"""Bytes of a frame's head, and the type of the frame that the server begins with."""

ANSWER_S = 30.0
"""How long it may take to answer a question later."""

STORE_BYTES = 256 * 2**20
"""The object store of a cluster that is started here. Batches are in it, a few at a time."""

ADDRESS = "RAY_ADDRESS"
LOCAL = "local"

T = TypeVar("T")


class EngineError(Exception):
    """A run on Ray can't begin or go on; the text says why."""


class _Thread:
    """A thread that does one thing after another. It does not delay the exit."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="ray", daemon=True).start()

    async def __call__(self, work: Callable[[], T], most_s: float, what: str) -> T:
        """Return or raise what `work` does. Raises `EngineError` if it takes longer."""
        done: Future[T] = Future()
        self._work.put((done, work))
        try:
            async with asyncio.timeout(most_s):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            raise EngineError(f"Ray took over {most_s:g} s to {what}") from None

    def _run(self) -> None:
        while True:
            done, work = self._work.get()
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(work())
            except BaseException as raised:  # noqa: BLE001 - it is the caller's
                done.set_exception(raised)


class Cluster:
    """Ray, as the head uses it. Made by `Cluster.open`."""

    def __init__(self, thread: _Thread, ray: Any) -> None:
        self.ray = ray
        self._thread = thread

    @classmethod
    @asynccontextmanager
    async def open(
        cls, ray: Any, *, dashboard: bool = False, modules: Collection[str] = ()
    ) -> AsyncIterator["Cluster"]:
        """Join the cluster at RAY_ADDRESS, or start one with all cores of this machine. `modules`
        are files and folders that players import. Raises `EngineError`.
        """
        address = os.environ.get(ADDRESS) or LOCAL
        given: dict[str, Any] = {
            "address": address,
            "log_to_driver": False,
            "logging_level": logging.ERROR,
            "configure_logging": True,
        }
        if modules:
            given["runtime_env"] = {"py_modules": [*modules]}
        if address == LOCAL:
            os.environ.setdefault("RAY_gcs_server_port_wait_time_s", f"{START_S:.0f}")
            given |= {"include_dashboard": dashboard, "object_store_memory": STORE_BYTES}
        else:
            await _check_answers(address)
        thread = _Thread()
        try:
            what = "start" if address == LOCAL else f"be joined at {address}"
            await thread(lambda: ray.init(**given), START_S, what)
        except EngineError:
            raise
        except Exception as error:  # whatever keeps Ray from starting
            where, hint = "can't start here", ""
            if address != LOCAL:
                where = f"at {address} can't be joined"
                hint = "; if it asks for a token, set RAY_AUTH_MODE=token with that token"
            raise EngineError(f"a Ray cluster {where}: {words_of(error)}{hint}") from error
        try:
            yield cls(thread, ray)
        finally:
            with suppress(EngineError):
                await asyncio.shield(thread(ray.shutdown, ANSWER_S, "end"))

    async def cpus(self) -> int:
        """How many CPUs the nodes have that are there now."""
        found = await self._thread(self.ray.cluster_resources, ANSWER_S, "say what it has")
        return int(found.get("CPU", 0))

    async def nodes(self) -> int:
        """How many nodes are there now."""
        found = await self._thread(self.ray.nodes, ANSWER_S, "list its nodes")
        return sum(bool(node["Alive"]) for node in found)

    async def put(self, value: object) -> Any:
        """A reference to a copy of the value in the object store."""
        return await self._thread(lambda: self.ray.put(value), ANSWER_S, "store the plan")

    async def start(self, kind: type, name: str, *arguments: Any) -> Any:
        """An actor with one CPU of its own; it may have to wait for that."""

        def start() -> Any:
            options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "name": name}
            return self.ray.remote(kind).options(**options).remote(*arguments)

        return await self._thread(start, ANSWER_S, "ask for an actor")

    async def kill(self, actor: Any) -> None:
        """End an actor at once, if it has not ended."""
        with suppress(EngineError, self.ray.exceptions.RayError, ValueError):
            await self._thread(lambda: self.ray.kill(actor), ANSWER_S, "end an actor")


async def _check_answers(address: str) -> None:
    """Raises `EngineError` if nothing at HOST:PORT speaks gRPC, as Ray does: it would try for
    minutes. A cluster with TLS is only connected to.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                if os.environ.get("RAY_USE_TLS", "0") == "0":
                    writer.write(_PREFACE)
                    head = await reader.readexactly(_FRAME_HEAD)
                    if head[3] != _SETTINGS:
                        raise ConnectionError
            finally:
                writer.close()
    except (OSError, OverflowError, TimeoutError, EOFError) as error:
        text = f"no Ray cluster answers at {address}, which {ADDRESS} names"
        raise EngineError(f"{text}: {type(error).__name__}") from error


def ray_module() -> Any:
    """Ray, which sends no statistics about its use. Raises `EngineError` if it is not installed or
    can't be used at RAY_ADDRESS.
    """
    if os.environ.get(ADDRESS, "").startswith("ray://"):
        text = "is the address of Ray Client; name the cluster itself, as HOST:6379 or auto"
        raise EngineError(f"{ADDRESS} {text}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        text = "--engine ray needs the extra `ray`: pip install 'finport[ray]'"
        raise EngineError(f"{text} ({error})") from error
    return ray


def own_modules(folder: Path) -> list[str]:
    """The modules in a folder that this process has imported: the user's suite, agent or judge and
    what they import. Players elsewhere can't import them unless they are sent along.
    """
    found = set()
    for name, module in [*sys.modules.items()]:
        if "." in name:
            continue
        places = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())]
        for place in places:
            if not place or not is_users(f"{place}{os.sep}"):
                continue
            path = Path(place)
            path = path.parent if path.name == "__init__.py" else path
            if path.parent == folder and path.suffix in ("", ".py"):
                found.add(str(path))
    return sorted(found)
