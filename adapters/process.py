"""Starts, ends and exchanges frames with a worker process, on the side of the parent.

The process gets no secret in its environment. It gets a session of its own, so that Ctrl-C reaches
only the parent, which ends its processes itself.
"""

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from adapters.fault import UpstreamFault
from adapters.frames import LENGTHS, frame, opening

_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_PIPE_BYTES = 2**18  # of output that is buffered before it is read


def environment() -> dict[str, str]:
    """The variables that a process which we start gets: none holds a secret."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


async def start(module: str) -> Process:
    """Run `python -m module`. The caller must end it. Raises `UpstreamFault` (`crashed`)."""
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            limit=_PIPE_BYTES,
            start_new_session=True,
        )
    except OSError as error:
        text = f"a process for the call could not be started: {error.strerror}"
        raise UpstreamFault("crashed", text, retryable=True) from None


def has_ended(process: Process) -> bool:
    """Whether a process has ended, also where the event loop does not know it yet."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def kill(process: Process) -> None:
    """Kill the process and all processes that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def send(process: Process, head: Mapping[str, Any]) -> None:
    """Send without waiting. The reader of the output notices if the process has ended."""
    with suppress(OSError, RuntimeError):
        standard_input(process).write(frame(head))


async def send_with_body(
    process: Process, head: Mapping[str, Any], body: bytes | bytearray
) -> None:
    """Send a frame in pieces, so that the event loop is not blocked.

    Raises `OSError` if the process has ended.
    """
    pipe, view = standard_input(process), memoryview(body)
    if pipe.is_closing():  # a write would raise `RuntimeError`
        raise BrokenPipeError("the process has ended")
    pipe.write(opening(head, len(body)))
    for at in range(0, len(body), _PIPE_BYTES):
        pipe.write(view[at : at + _PIPE_BYTES])
        await pipe.drain()


async def receive(process: Process) -> tuple[dict[str, Any], bytes]:
    """Read the next frame. Raises `asyncio.IncompleteReadError` if the process has ended."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    return await receive_from(process.stdout)


async def receive_from(
    stream: asyncio.StreamReader, most: int | None = None
) -> tuple[dict[str, Any], bytes]:
    """Read the next frame. Raises `asyncio.IncompleteReadError` if the stream has ended, and
    `ValueError` for a frame of over `most` bytes.
    """
    head, left = LENGTHS.unpack(await stream.readexactly(LENGTHS.size))
    if most is not None and head + left > most:
        raise ValueError(f"a frame of {head + left} bytes is over {most}")
    text = await stream.readexactly(head)
    pieces = []
    while left:
        pieces.append(await stream.readexactly(min(left, _PIPE_BYTES)))
        left -= len(pieces[-1])
    return orjson.loads(text), b"".join(pieces)


def standard_input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    return process.stdin
