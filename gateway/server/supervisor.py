"""The supervisor: starts several processes that serve together, and replaces those that die.

The supervisor binds one listening socket, which each worker inherits. So all workers share one
queue of connections, and a worker that dies loses only those that it had accepted; with
SO_REUSEPORT it would lose a queue of its own. A worker that dies is replaced while the others
serve; if it dies at once, its replacement waits for a growing pause. A worker whose event loop no
longer turns, because it was stopped or hangs, is killed. A worker whose supervisor dies reads the
end of its stdin, answers the requests that it has accepted, and ends. The supervisor runs no
gateway: its process imports only this module and the logs.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal, NoReturn

from gateway.server.sockets import turn_away
from gateway.telemetry.logs import set_up

log = logging.getLogger("finport")

READY = "finport ready on "

READY_S = 60.0
"""Seconds within which a worker must be ready."""

STEADY_S = 2.0
"""A worker that died sooner after it was ready, or was never ready, is replaced after a pause."""

PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
"""The first and the longest pause; each pause is twice the one before."""

BEAT_S = 1.0
"""How often a worker that serves writes to its stdout, from its event loop."""

SILENT = 30
"""Looks without a beat, one each `BEAT_S`, after which a worker is killed. A look that comes late
is not counted: then the machine slept, or is too busy for the supervisor and so for its workers.
"""

STARTS = 5
"""Failed starts in a row that end the supervisor, unless a worker serves."""

OVERTIME_S = 12.0
"""Seconds that workers may take beyond `drain_s` to send answers and write queued records."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A supervisor's task: run `finport` with `arguments` `workers` times on an open socket."""

    arguments: tuple[str, ...]
    workers: int
    listening: int
    drain_s: float
    drain_notice_s: float
    until_stdin_closes: bool
    log_format: Literal["text", "json"]


def supervise(plan: Plan) -> NoReturn:
    """Become the supervisor: replace this process with a program that has fewer imports."""
    os.set_inheritable(plan.listening, True)
    sys.stdout.flush()
    sys.stderr.flush()
    command = (sys.executable, "-P", "-m", "gateway.server.supervisor", json.dumps(asdict(plan)))
    os.execv(sys.executable, command)  # noqa: S606 - no shell is needed


class Terminal:
    """The terminal that the process has at its start, if any. The system sends SIGHUP when it is
    closed, and an operator sends it for a reload.
    """

    def __init__(self) -> None:
        self._was_there = _has_terminal()

    @property
    def is_gone(self) -> bool:
        return self._was_there and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Supervisor:
    """Keeps the workers of one plan running until it gets a signal or its stdin ends."""

    def __init__(self, plan: Plan, listening: socket.socket, folder: str) -> None:
        self._plan = plan
        self._listening = listening
        self._folder = folder
        self._living: dict[int, Process] = {}
        self._were_ready: set[int] = set()
        self._serving: set[int] = set()
        self._failed_starts = 0
        self._signals = 0
        self._reloads = 0
        self._stop = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Run until all workers have ended; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup, Terminal())
        if self._plan.until_stdin_closes:
            when_stdin_closes(self._stop.set)
        keepers = [asyncio.create_task(self._keep(n)) for n in range(self._plan.workers)]
        await self._stop.wait()
        await self._give_notice(keepers)
        turn_away(self._listening)
        self._listening.close()
        for process in self._living.values():
            _signal(process, signal.SIGTERM)
            assert process.stdin is not None  # noqa: S101 - a pipe was asked for
            process.stdin.close()  # ends the notice of a worker, which has the signal already
        limit_s = self._plan.drain_s + OVERTIME_S
        _, late = await asyncio.wait(keepers, timeout=limit_s)
        if late:
            which = " and ".join(str(index) for index in sorted(self._living))
            self._fail(f"workers had to be killed {limit_s:g} s after the signal to end: {which}")
            self._kill()
        await asyncio.gather(*keepers)
        return self._code

    async def _give_notice(self, keepers: list[asyncio.Task[None]]) -> None:
        """Let the workers say that they are not ready, while the queue of connections is open."""
        if not self._plan.drain_notice_s or self._code:
            return
        for process in self._living.values():
            _signal(process, signal.SIGTERM)
        await asyncio.wait(keepers, timeout=self._plan.drain_notice_s)

    async def _keep(self, index: int) -> None:
        """Keep one worker of this index running until the supervisor stops."""
        pause_s = 0.0
        while not self._stop.is_set():
            pause_s = pause_after(pause_s, await self._have(index))
            if pause_s and not self._stop.is_set():
                log.warning("worker %d is replaced in %g s", index, pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()

    async def _have(self, index: int) -> float:
        """Run one worker until it ends; return the seconds for which it served."""
        reloads = self._reloads
        try:
            process = self._living[index] = await self._start(index)
        except (OSError, RuntimeError, MemoryError) as error:  # Python 3.11 starts a thread too
            self._note_failed_start(_why_not(error), 1)
            return 0.0
        if self._stop.is_set():  # it was starting when the others got the signal
            _signal(process, signal.SIGTERM)
        words = await _first_words(process)
        was_ready = words.startswith(READY)
        began = asyncio.get_running_loop().time()
        if was_ready:
            self._note_ready(index, words)
            if reloads != self._reloads:  # it may have read its settings before
                _signal(process, signal.SIGHUP)
        watching = asyncio.create_task(self._watch(index, process))
        status = await process.wait()
        watching.cancel()
        del self._living[index]
        self._serving.discard(index)
        if not self._stop.is_set():
            if not was_ready:
                self._note_failed_start(words, status)
            else:
                log.warning("worker %d (process %d) %s", index, process.pid, _ended(status))
        elif was_ready and status:
            self._fail(f"worker {index} (process {process.pid}) {_ended(status)}")
        return asyncio.get_running_loop().time() - began if was_ready else 0.0

    async def _watch(self, index: int, process: Process) -> None:
        """Kill a worker that is silent while the supervisor does not stop."""
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        loop, silent = asyncio.get_running_loop(), 0
        while silent < SILENT:
            due = loop.time() + BEAT_S
            try:
                async with asyncio.timeout_at(due):
                    if not await process.stdout.read(2**10):
                        return
                silent = 0
            except TimeoutError:
                is_late = loop.time() - due > BEAT_S
                silent += not (is_late or self._stop.is_set())
        text = "worker %d (process %d) gave no sign for %g s and is killed"
        log.warning(text, index, process.pid, SILENT * BEAT_S)
        _signal(process, signal.SIGKILL)

    async def _start(self, index: int) -> Process:
        listening = self._listening.fileno()
        hidden = ("--worker", str(listening), str(index), self._folder, "--until-stdin-closes")
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "gateway.cli.main", *self._plan.arguments, *hidden),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(listening,),
            start_new_session=True,  # Ctrl-C reaches only the supervisor, which ends its workers
        )

    def _note_ready(self, index: int, words: str) -> None:
        self._failed_starts = 0
        self._serving.add(index)
        before = len(self._were_ready)
        self._were_ready.add(index)
        if before < len(self._were_ready) == self._plan.workers:
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()

    def _note_failed_start(self, words: str, status: int) -> None:
        """End if no worker was ever ready, since all would fail alike; else allow more attempts."""
        self._failed_starts += 1
        reason = words.removeprefix("finport: ") or f"a worker {_ended(status)} before it was ready"
        if words and not self._were_ready:
            self._fail(reason, 2 if status == 2 else 1)
        elif self._failed_starts >= STARTS and not self._serving:
            self._fail(
                f"no worker could be started, {self._failed_starts} times in a row: {reason}"
            )
        else:
            log.warning("a worker could not be started: %s", reason)

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 2:
            self._fail("second signal to end: calls under way are lost")
            self._kill()
        self._stop.set()

    def _on_hangup(self, terminal: Terminal) -> None:
        """Let the workers reload; without a terminal that was there, end."""
        if terminal.is_gone:
            self._on_signal()
            return
        self._reloads += 1
        for index in self._serving:  # the default action of the others is to end
            _signal(self._living[index], signal.SIGHUP)

    def _fail(self, reason: str, code: int = 1) -> None:
        """Stop and exit with that code; only the first reason is written."""
        if not self._code:
            self._code = code
            sys.stderr.write(f"finport: {reason}\n")
        self._stop.set()

    def _kill(self) -> None:
        for process in self._living.values():
            _signal(process, signal.SIGKILL)


def pause_after(before_s: float, lived_s: float) -> float:
    """Seconds to wait after a worker that lived `lived_s`, started after a pause of `before_s`."""
    if lived_s >= STEADY_S:
        return 0.0
    return min(max(2 * before_s, PAUSE_S), LONGEST_PAUSE_S)


def beat() -> None:
    """Tell the supervisor, now and every `BEAT_S`, that the event loop of this worker turns."""
    stdout = sys.stdout.fileno()
    os.set_blocking(stdout, False)  # the pipe may be full if the supervisor is stopped
    with suppress(OSError):
        os.write(stdout, b"\n")
    asyncio.get_running_loop().call_later(BEAT_S, beat)


def when_stdin_closes(then: Callable[[], None]) -> None:
    """Call `then` once stdin has ended or holds data."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(stdin)  # an ended pipe stays readable
        then()

    loop.add_reader(stdin, ended)


async def _first_words(process: Process) -> str:
    """Return the first line that a worker writes, when it is ready or has failed."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(READY_S):
            return (await process.stdout.readline()).decode(errors="replace").strip()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        return f"it was not ready within {READY_S:g} s"


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal, not by `process.send_signal`: that looks first whether the process has ended,
    and then asyncio's watcher, which waits for it as well, finds no child and complains.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _why_not(error: Exception) -> str:
    from manifests.common.terminal import lack_of  # has more imports than the supervisor needs

    return lack_of(error) or f"no worker can be started: {error}"


def _ended(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    listening = socket.socket(fileno=plan.listening)
    listening.set_inheritable(False)
    try:
        with (
            set_up(plan.log_format),
            tempfile.TemporaryDirectory(prefix="finport-", ignore_cleanup_errors=True) as folder,
            listening,
        ):
            code = asyncio.run(Supervisor(plan, listening, folder).run())
    except (RuntimeError, MemoryError) as error:
        sys.exit(f"finport: {_why_not(error)}")
    sys.exit(code)


if __name__ == "__main__":
    main()
