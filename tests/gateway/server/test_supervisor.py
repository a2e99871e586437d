"""`finport serve --workers`: real processes under load, told to end, killed, unable to start."""

import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aiohttp
import pytest

from gateway.server import supervisor as workers
from gateway.server.sockets import bound_socket
from gateway.server.supervisor import Plan, Supervisor, pause_after
from tests.support.servers import (
    Server,
    answer,
    asked,
    coin,
    environment,
    is_listening,
    not_ready,
    refusal,
    server,
    stalling,
)
from tests.support.waiting import EARLY_S, PATIENCE_S, until

pytestmark = pytest.mark.anyio

CLIENTS = 32

CALLS = 20
"""Calls that a client makes on one connection: a new worker gets its part only of new ones."""

SLOW = ("--simulated-latency-s", "0.3")
PER_HOST = {"FINPORT_MAX_CONCURRENCY_PER_HOST": "128", "FINPORT_DRAIN_S": "600"}
"""So that no call waits for a slot, and none is ended by the drain time."""


@dataclass
class Load:
    """Clients that call without a pause; every fourth call has no kept answer.

    What became of their calls is counted: `lost` has, for each without a whole answer, the process
    that had answered last on its connection.
    """

    port: int
    statuses: Counter[int] = field(default_factory=Counter)
    pids: Counter[int] = field(default_factory=Counter)
    sent: int = 0
    told_to_close: int = 0
    refused: int = 0
    lost: list[int | None] = field(default_factory=list)
    over: bool = False

    @classmethod
    @asynccontextmanager
    async def on(cls, port: int, clients: int = CLIENTS) -> AsyncIterator["Load"]:
        load = cls(port)
        tasks = [asyncio.create_task(load._client(number)) for number in range(clients)]
        try:
            yield load
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def __str__(self) -> str:
        return (
            f"{self.sent} calls, answered {dict(self.statuses)}, lost {len(self.lost)}; "
            f"told to close {self.told_to_close}, refused {self.refused}; by {dict(self.pids)}"
        )

    async def _client(self, number: int) -> None:
        """One client, until the load is over or the server takes no connection any more."""
        turn = 0
        while not self.over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionRefusedError:
                self.refused += 1
                return
            pid = None
            try:
                for _ in range(CALLS):
                    turn += 1
                    self.sent += 1
                    writer.write(coin("kept" if turn % 4 else f"{number}-{turn}"))
                    status, head, _ = await answer(reader)
                    self.statuses[status] += 1
                    pid = int(re.findall("x-request-id: ([0-9a-f]+)-", head)[0], 16)
                    self.pids[pid] += 1
                    is_told = "connection: close" in head
                    self.told_to_close += is_told
                    if is_told or self.over:
                        break
            except (asyncio.IncompleteReadError, ConnectionError):
                self.lost.append(pid)
            finally:
                writer.close()


def tell(figures: str) -> None:
    sys.stdout.write(f"\n{figures}\n")


def children(parent: int) -> set[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return {int(child) for child in text.split() if is_there(int(child))}


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


async def ended_and_replaced(served: Server, victim: int, how: signal.Signals, load: Load) -> int:
    """The process that serves in place of one that was told to end, or killed."""
    supervisor = served.process.pid
    before = children(supervisor)
    os.kill(victim, how)
    await until(lambda: not is_there(victim))
    await until(lambda: len(children(supervisor)) == len(before))
    (successor,) = children(supervisor) - before
    await until(lambda: load.pids[successor] > 0)
    return successor


async def test_a_worker_told_to_end_and_then_all_lose_no_call(tmp_path: Path) -> None:
    trace = tmp_path / "calls.jsonl"
    options = ("--workers", "2", "--trace", str(trace), *SLOW)
    async with server(tmp_path, *options, **PER_HOST) as served:
        first, second = sorted(children(served.process.pid))
        async with Load.on(served.port) as load:
            await until(lambda: load.pids.keys() == {first, second})
            await asyncio.sleep(0.5)
            third = await ended_and_replaced(served, first, signal.SIGTERM, load)
            assert not load.refused
            served.tell(signal.SIGTERM)
            began = time.monotonic()
            code, stderr = await served.ended()
            ended_s = time.monotonic() - began
        tell(f"SIGTERM to one of two, then to all, which took {ended_s:.2f} s: {load}")
        assert not load.lost
        assert load.statuses == {200: load.sent}
        assert load.refused == CLIENTS
        assert load.told_to_close >= CLIENTS
        assert code == 0
        assert re.search(rf"worker 0 \(process {first}\) ended with status 0\n", stderr)
    files = [tmp_path / f"calls.{index}.jsonl" for index in (0, 1)]
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(records) == load.sent
    # The successor of a worker goes on with its file.
    prefixes = [record["call_id"].split("-")[0] for record in records]
    assert {int(prefix, 16) for prefix in prefixes} == {first, second, third}


async def test_all_workers_are_not_ready_and_answer_until_the_notice_is_over(
    tmp_path: Path,
) -> None:
    options = ("--workers", "2", "--drain-notice", "3", *SLOW)
    async with server(tmp_path, *options, **PER_HOST) as served:
        workers = children(served.process.pid)
        async with Load.on(served.port) as load:
            await until(lambda: load.pids.keys() == workers)
            served.tell(signal.SIGTERM)
            began = time.monotonic()
            await not_ready(served.url)
            load.pids.clear()
            await until(lambda: load.pids.keys() == workers)
            code, _ = await served.ended()
        tell(f"SIGTERM with a notice of 3 s: {load}")
        assert time.monotonic() - began >= 3 - EARLY_S
        assert not load.lost
        assert load.statuses == {200: load.sent}
        assert load.refused == CLIENTS
        assert code == 0


async def test_a_killed_worker_takes_only_its_calls_along(tmp_path: Path) -> None:
    async with server(tmp_path, "--workers", "2", *SLOW, **PER_HOST) as served:
        victim, survivor = children(served.process.pid)
        async with Load.on(served.port) as load:
            await until(lambda: load.pids.keys() == {victim, survivor})
            await asyncio.sleep(0.5)
            await ended_and_replaced(served, victim, signal.SIGKILL, load)
            load.over = True
        tell(f"kill -9 of one of two: {load}")
        assert 0 < len(load.lost) <= CLIENTS
        assert set(load.lost) <= {victim, None}
        assert load.statuses == {200: load.sent - len(load.lost)}
        assert not load.refused
        served.tell(signal.SIGINT)
        code, stderr = await served.ended()
        assert (code, f"(process {victim}) was ended by signal 9" in stderr) == (0, True)


async def test_one_worker_says_how_all_are_doing(tmp_path: Path) -> None:
    async with server(tmp_path, "--workers", "2", "--until-stdin-closes") as served:
        async with Load.on(served.port) as load:
            await until(lambda: len(load.pids) == 2)
            load.over = True
        (folder,) = {metrics_folder(worker) for worker in children(served.process.pid)}
        assert os.access(folder, os.W_OK)
        async with asyncio.timeout(PATIENCE_S):
            while await _counted(served.url) != load.sent:
                await asyncio.sleep(0.1)
            _, health = await asked(f"{served.url}/healthz")
            while health["workers"]["alive"] < 2 or sum(health["calls"].values()) != load.sent:
                await asyncio.sleep(0.05)
                _, health = await asked(f"{served.url}/healthz")
        assert (health["status"], health["workers"]["wanted"]) == ("ok", 2)
        served.stdin.close()
        assert await served.ended() == (0, "")
        assert not os.access(folder, os.F_OK)


def metrics_folder(worker: int) -> str:
    words = Path(f"/proc/{worker}/cmdline").read_text().split("\0")
    return words[words.index("--worker") + 3]


async def _counted(url: str) -> int:
    async with aiohttp.ClientSession() as client, client.get(f"{url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return round(sum(float(x.split()[-1]) for x in lines if x.startswith("finport_calls_total{")))


async def test_no_worker_is_left_behind_by_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    options = ("--workers", "2", "--simulated-latency-s", "2")
    async with server(tmp_path, *options) as served:
        workers = children(served.process.pid)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(coin("x"))
        await served.called()
        served.process.kill()
        status, head, _ = await answer(reader)  # what was accepted is answered all the same
        assert (status, "connection: close" in head) == (200, True)
        writer.close()
        await until(lambda: not any(map(is_there, workers)))


async def test_the_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    told = {"FINPORT_DRAIN_S": "600", "FINPORT_SIMULATED_LATENCY_S": "600"}
    async with server(tmp_path, "--workers", "2", **told) as served:
        workers = children(served.process.pid)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(coin("x"))
        await served.called()
        for worker in workers:  # as a service manager does that tells every process
            os.kill(worker, signal.SIGTERM)
        served.tell(signal.SIGTERM)
        await until(lambda: not is_listening(served.port))
        assert any(map(is_there, workers))
        served.tell(signal.SIGTERM)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await answer(reader)
        writer.close()
        said = "finport: second signal to end: calls under way are lost\n"
        assert await served.ended() == (1, said)
        assert not any(map(is_there, workers))


async def test_the_second_signal_ends_a_worker_whose_event_loop_is_stalled(tmp_path: Path) -> None:
    told = stalling(tmp_path / "stalling")
    async with server(tmp_path, "--workers", "2", **told) as served:
        stalled, other = children(served.process.pid)
        os.kill(stalled, signal.SIGUSR1)
        await until((tmp_path / "stalling" / "stalled").exists)
        served.tell(signal.SIGTERM)
        await until(lambda: not is_there(other))
        assert is_there(stalled)
        served.tell(signal.SIGTERM)
        said = "finport: second signal to end: calls under way are lost\n"
        assert await served.ended() == (1, said)
        assert not is_there(stalled)


async def test_workers_that_cannot_start_end_the_server_with_the_reason_once(
    tmp_path: Path,
) -> None:
    options = ("--workers", "2", "--mode", "offline", "--snapshot", str(tmp_path / "none.snap"))
    code, stdout, stderr = await refusal(tmp_path, *options)
    assert (code, stdout) == (1, "")
    assert stderr.startswith("finport: ")
    assert stderr.count("none.snap") == stderr.count("\n") == 1


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_settings_that_cannot_be_used_are_named_once(tmp_path: Path, workers: str) -> None:
    (tmp_path / "clients.json").write_text("{")
    code, stdout, stderr = await refusal(tmp_path, "--workers", workers)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("finport: clients file ")
    assert stderr.count("\n") == 1


async def test_workers_that_die_again_and_again_end_the_server() -> None:
    with bound_socket("127.0.0.1", 0) as listening:
        plan = Plan(("serve", "--nonsense"), 2, listening.fileno(), 1, 0, False, "text")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "gateway.server.supervisor", json.dumps(asdict(plan))),
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(listening.fileno(),),
        )
        async with asyncio.timeout(PATIENCE_S):
            _, stderr = await process.communicate()
    reason = b"5 times in a row: a worker ended with status 2 before it was ready\n"
    assert process.returncode == 1
    assert stderr.count(b"finport: no worker could be started, " + reason) == 1
    assert stderr.count(b"No such option: --nonsense") <= 6


@asynccontextmanager
async def supervised(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **told: str
) -> AsyncIterator[tuple[set[int], int]]:
    """Two workers whose supervisor runs in this process, and their port. In the end it is told to
    end.
    """
    for name, value in {**environment(folder), **told}.items():
        monkeypatch.setenv(name, value)
    before = children(os.getpid())
    with bound_socket("127.0.0.1", 0) as listening:
        plan = Plan(("serve",), 2, listening.fileno(), 5, 0, False, "text")
        running = asyncio.create_task(Supervisor(plan, listening, str(folder)).run())
        try:
            await until(lambda: "finport ready on " in capsys.readouterr().out)
            yield children(os.getpid()) - before, listening.getsockname()[1]
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await running == 0
        finally:
            running.cancel()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().remove_signal_handler(number)
    assert children(os.getpid()) == before


async def test_a_worker_that_dies_at_once_is_replaced_after_a_pause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("STEADY_S", "PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(workers, name, 3_600)
    async with supervised(tmp_path, monkeypatch, capsys) as (first, port):
        os.kill(min(first), signal.SIGKILL)
        await until(lambda: "is replaced in 3600 s" in caplog.text)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(coin("x"))
        assert (await answer(reader))[0] == 200
        writer.close()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGUSR1], ids=["stopped", "stalled"])
async def test_a_worker_that_gives_no_sign_is_replaced(
    how: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(workers, "SILENT", 8)
    told, others = stalling(tmp_path / "stalling"), children(os.getpid())
    async with supervised(tmp_path, monkeypatch, capsys, **told) as (first, _):
        victim, survivor = sorted(first)
        os.kill(victim, how)
        await until(lambda: not is_there(victim))
        await until(lambda: len(children(os.getpid()) & first) == 1)
        await until(lambda: len(children(os.getpid()) - first - others) >= 1)
    assert f"(process {victim}) gave no sign for 8 s and is killed" in caplog.text
    assert f"(process {survivor}) gave" not in caplog.text


async def test_no_worker_is_killed_after_all_processes_were_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(workers, "SILENT", 5)
    async with supervised(tmp_path, monkeypatch, capsys) as (first, _):
        for worker in first:
            os.kill(worker, signal.SIGSTOP)
        time.sleep(7)  # noqa: ASYNC251 - the supervisor is stopped too
        await asyncio.sleep(0)
        for worker in first:
            os.kill(worker, signal.SIGCONT)
        await asyncio.sleep(2)
        assert first <= children(os.getpid())
    assert "gave no sign" not in caplog.text


def test_the_pause_grows_until_a_worker_has_served_for_a_while() -> None:
    pauses = [0.0]
    for lived_s in (0, 0, 1, 60, 0, *[0] * 9):
        pauses.append(pause_after(pauses[-1], lived_s))
    assert pauses[1:8] == [0.1, 0.2, 0.4, 0, 0.1, 0.2, 0.4]
    assert max(pauses) == pauses[-1] == 10


@pytest.mark.soak
async def test_a_minute_of_workers_told_to_end_and_killed(tmp_path: Path) -> None:
    killed: set[int | None] = {None}
    rounds = Counter[signal.Signals]()
    options = ("--workers", "3", *SLOW)
    async with server(tmp_path, *options, **PER_HOST) as served:
        async with Load.on(served.port, 100) as load:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                how = random.choice((signal.SIGTERM, signal.SIGKILL))
                lost = len(load.lost)
                victim = random.choice(sorted(children(served.process.pid)))
                rounds[how] += 1
                await ended_and_replaced(served, victim, how, load)
                if how is signal.SIGTERM:
                    assert len(load.lost) == lost
                else:
                    killed.add(victim)
            served.tell(signal.SIGTERM)
            code, _ = await served.ended()
        tell(f"{dict(rounds)} among 100 clients: {load}")
        assert code == 0
        assert set(load.lost) <= killed
        assert load.statuses == {200: load.sent - len(load.lost)}
