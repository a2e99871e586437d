"""Work in a thread of one's own, awaited from the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_in(thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: object) -> T:
    """What `work(*arguments)` gives back or raises."""
    return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)
