"""Turns at something scarce: a bounded number at once, and clients served one after the other.

One client's calls keep their order; between clients it is round robin, so that a run of a thousand
calls and one of ten both go on at their share.
"""

import asyncio
from collections import OrderedDict


class LineFull(Exception):
    """So many wait already that one more is not let in."""


class Turns:
    """`at_once` turns, and a line of at most `line` who wait for one."""

    def __init__(self, at_once: int, line: int) -> None:
        self._free = at_once
        self._line = line
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()
        self.taken = 0
        self.waiting = 0

    async def take(self, client: str) -> None:
        """Wait for a turn; who got one gives it back. Raises `LineFull`."""
        if self._free and not self.waiting:
            self._hand_out()
            return
        if self.waiting >= self._line:
            raise LineFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, OrderedDict())[turn] = None
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()  # it came while its caller was leaving
            elif turn in self._waiting.get(client, ()):
                self._leave(client, turn)
            raise

    def give_back(self) -> None:
        self.taken -= 1
        self._free += 1
        while self._free and self._waiting:
            client, line = self._waiting.popitem(last=False)
            turn, _ = line.popitem(last=False)
            if line:
                self._waiting[client] = line  # behind the other clients
            self.waiting -= 1
            if not turn.done():  # its caller may be about to leave
                self._hand_out()
                turn.set_result(None)

    def _hand_out(self) -> None:
        self._free -= 1
        self.taken += 1

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting[client]
        del line[turn]
        self.waiting -= 1
        if not line:
            del self._waiting[client]
