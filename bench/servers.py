"""Servers that a measurement starts, each a process of its own."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from bench.demo import ready


@asynccontextmanager
async def server(folder: Path, *command: str, **told: str) -> AsyncIterator[str]:
    """A process that says on its first line where it is ready; gives that URL.

    It runs in `folder` without this process's settings of Finport and its proxies, and with the
    environment `told`. Ends with the context. Raises `GatewayNotReadyError`.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FINPORT_") and not name.lower().endswith("_proxy")
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=kept | told,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield await ready(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
