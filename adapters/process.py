"""A process of our own that speaks in frames over its pipes, as the parent sees it.

It gets no secret in its environment and a session of its own: Ctrl-C is for the parent, which ends
its processes itself.
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
_PIPE_BYTES = 2**18  # kept of what has come before it is asked for


async def start(module: str) -> Process:
    """`python -m module`. Whoever starts it ends it. Raises `UpstreamFault` (`crashed`)."""
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            limit=_PIPE_BYTES,
            start_new_session=True,
        )
    except OSError as error:
        text = f"a process for the call could not be started: {error.strerror}"
        raise UpstreamFault("crashed", text, retryable=True) from None


def kill(process: Process) -> None:
    """End it and whatever it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def send(process: Process, head: Mapping[str, Any]) -> None:
    """Never waits; one that has ended is found out by who listens to it."""
    with suppress(OSError, RuntimeError):
        standard_input(process).write(frame(head))


async def send_with_body(
    process: Process, head: Mapping[str, Any], body: bytes | bytearray
) -> None:
    """In pieces, so that the loop goes on. Raises `OSError` where the process has ended."""
    pipe, view = standard_input(process), memoryview(body)
    pipe.write(opening(head, len(body)))
    for at in range(0, len(body), _PIPE_BYTES):
        pipe.write(view[at : at + _PIPE_BYTES])
        await pipe.drain()


async def receive(process: Process) -> tuple[dict[str, Any], bytes]:
    """The next frame. Raises `asyncio.IncompleteReadError` where the process has ended."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    head, left = LENGTHS.unpack(await process.stdout.readexactly(LENGTHS.size))
    text = await process.stdout.readexactly(head)
    pieces = []
    while left:
        pieces.append(await process.stdout.readexactly(min(left, _PIPE_BYTES)))
        left -= len(pieces[-1])
    return orjson.loads(text), b"".join(pieces)


def standard_input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    return process.stdin
