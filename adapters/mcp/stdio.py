"""A program that is an MCP server over its standard streams, as a transport of the SDK's client.

The program gets the variables that its provider names and the few that any program needs. Its lines
are bounded, and what it writes to standard error goes to the log. It ends with its connection, and
with this process, however that ends (`keeper.py`).
"""

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import mcp_types as types
import orjson
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from adapters.fault import fit_for_message
from adapters.mcp.errors import INVALID, TOO_LARGE
from adapters.normalise import MAX_BYTES
from adapters.process import environment

log = logging.getLogger("finport")

_KEEPER = Path(__file__).with_name("keeper.py")
_CHUNK: Final = 2**16
_MAX_LINE: Final = MAX_BYTES + 2**16
_ENDS: Final = 2**10  # bytes of a line that is too long, from its beginning and its end
_AN_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,64}")'
_ID = re.compile(_AN_ID)
_VERSION = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ANSWER = re.compile(
    rb"\s*\{\s*" + _VERSION + rb"(?:" + _AN_ID + rb"\s*,\s*" + _VERSION + rb')?"(?:result|error)"'
)
_LAST_ID = re.compile(_AN_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_CLOSE_S: Final = 2.0
"""How long a program may take to end by itself once its input has ended, and after SIGTERM."""

_STDERR_LINE, _STDERR_LINES = 500, 200
"""Characters of a line of standard error in the log, and lines in a minute."""


@asynccontextmanager
async def open_program(
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    secrets: Iterable[str],
    on_end: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    """Run a program; `on_end` is called when its output has ended. Raises `OSError`."""
    ours, theirs = os.pipe()[::-1]
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-P", str(_KEEPER), str(theirs), *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment(), **variables},
            start_new_session=True,
            pass_fds=(theirs,),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
    assert process.stderr is not None  # noqa: S101
    came, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, sent = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.ensure_future(_receive(process.stdout, came)),
        asyncio.ensure_future(_send(process.stdin, sent, came)),
        asyncio.ensure_future(_tell(name, process.stderr, [*secrets])),
    ]
    tasks[0].add_done_callback(lambda _: on_end())
    try:
        yield read, write
    finally:
        with anyio.CancelScope(shield=True):
            try:
                process.stdin.close()
                if not await _has_ended(process):
                    _signal(process, signal.SIGTERM)
                    await _has_ended(process)
            finally:
                _signal(process, signal.SIGKILL)
                os.close(ours)
                for task in tasks:
                    task.cancel()
                for stream in (came, read, write, sent):
                    stream.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _has_ended(process)
            # A process that has left the group may hold the other ends of the pipes.
            process._transport.close()  # type: ignore[attr-defined]


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Whether the program has ended, after a bounded wait."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await process.wait()
    return process.returncode is not None


async def _receive(
    pipe: asyncio.StreamReader,
    came: anyio.abc.ObjectSendStream[SessionMessage | Exception],
) -> None:
    """Pass on the program's messages until its output ends."""
    async with came:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await _lines(pipe, lambda line: came.send(message_of(line)), came.send)


async def _lines(
    pipe: asyncio.StreamReader,
    take: Callable[[bytes], Awaitable[None]],
    refuse: Callable[[SessionMessage], Awaitable[None]],
) -> None:
    """`take` each line; of one that is too long `refuse` what answers its request."""
    buffer, dropped = bytearray(), 0
    while chunk := await pipe.read(_CHUNK):
        first, *others = chunk.split(b"\n")
        for number, piece in enumerate((first, *others)):
            if number:  # the line before has ended
                if dropped:
                    answer = _too_long(buffer)
                    if answer is not None:
                        await refuse(answer)
                elif buffer.strip():
                    await take(bytes(buffer))
                buffer, dropped = bytearray(), 0
            buffer += piece
            if dropped:
                del buffer[_ENDS:-_ENDS]
            elif len(buffer) > _MAX_LINE:
                dropped = 1
                del buffer[_ENDS:-_ENDS]


def message_of(line: bytes) -> SessionMessage | Exception:
    adapter = types.jsonrpc_message_adapter
    try:
        try:
            said = orjson.loads(line)  # a tenth of the time that `validate_json` takes
        except orjson.JSONDecodeError:  # NaN, which is no JSON and which some write
            return SessionMessage(adapter.validate_json(line, by_name=False))
        return SessionMessage(adapter.validate_python(said, by_name=False))
    except ValueError:
        return _unreadable(line) or ValueError("a line is no message of JSON-RPC")


def _unreadable(line: bytes) -> SessionMessage | None:
    """The answer to the request whose answer is no JSON that can be read, such as one that is
    nested too deeply.
    """
    begun = _ANSWER.match(line[:_ENDS])
    if begun is None:
        return None
    found = begun if begun[1] else _LAST_ID.search(line[-_ENDS:])
    return found and _error(found[1], INVALID, "the answer can't be read as JSON")


def _too_long(ends: bytearray) -> SessionMessage | None:
    """The answer to the request whose answer is too long, of which both ends are left."""
    found = _ID.search(ends[:_ENDS]) or _ID.search(ends[_ENDS:])
    return found and _error(found[1], TOO_LARGE, f"the answer is over {MAX_BYTES} bytes")


def _error(said_id: bytes, code: int, message: str) -> SessionMessage:
    text = said_id.decode(errors="replace")
    id_ = text[1:-1] if text.startswith('"') else int(text)
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))


async def _send(
    pipe: asyncio.StreamWriter,
    sent: anyio.abc.ObjectReceiveStream[SessionMessage],
    came: anyio.abc.ObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                pipe.write(text.encode() + b"\n")
                await pipe.drain()
    except (OSError, RuntimeError):  # the program has closed its input: nothing can be asked
        await came.aclose()


async def _tell(name: str, pipe: asyncio.StreamReader, secrets: Sequence[str]) -> None:
    """Log what the program writes to standard error, in bounded lines and number."""
    loop = asyncio.get_running_loop()
    since, told, rest = loop.time(), 0, b""
    while chunk := await pipe.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: 4 * _STDERR_LINE]
        for line in lines:
            if loop.time() - since > 60:
                since, told = loop.time(), 0
            told += 1
            text = fit_for_message(line[: 4 * _STDERR_LINE].decode(errors="replace"), secrets,
                                   most=_STDERR_LINE)  # fmt: skip
            if text and told <= _STDERR_LINES:
                log.info("MCP server %s: %s", name, text)
            elif told == _STDERR_LINES + 1:
                log.warning("MCP server %s writes too much; its lines are left out", name)
