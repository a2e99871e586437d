"""Runs work in a dedicated thread that the event loop awaits."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_in(thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: object) -> T:
    """Run `work(*arguments)` in `thread`. Returns or raises as `work` does."""
    return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)
