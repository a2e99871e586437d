"""Shortened answers for the call pipeline: made aside if they are long, and kept for a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from threading import Event
from typing import Any

import anyio
import orjson
from anyio import to_thread

from adapters.fair_queue import Shares
from cache import Entry, Flight, Flights, View
from gateway.compress.budget import OVER, Budget, is_loaded
from gateway.compress.cut import Compressed
from gateway.compress.extractor import READ, Extractor
from manifests import Manifest

AT_ONCE, CELLS_AT_ONCE, QUESTION_AT_ONCE = 2**11, 2**10, 2**8
"""The longest answer, in bytes, the most cells of a table, its rows times its columns, and the
longest question that take so little, a few milliseconds at the worst, that no thread is needed.
"""

THREADS = 3
"""How many answers are shortened at once in threads. One of 16 MB takes 0.3 GB meanwhile."""

KEPT_BYTES = 8 * 2**20
"""How much of shortened answers is kept."""

_Key = tuple[str, Budget, str]


class Shortener:
    """Shortens answers for one event loop. No client can take all threads."""

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor
        self._kept: OrderedDict[_Key, View] = OrderedDict()
        self._bytes = 0
        self._threads = anyio.CapacityLimiter(THREADS)
        self._shares = Shares(THREADS)
        self._making: Flights[View] = Flights()
        self._in_threads: set[asyncio.Future[Compressed]] = set()

    async def aclose(self) -> None:
        """End what is being made."""
        await self._making.close()
        if self._in_threads:
            await asyncio.wait(self._in_threads)

    def known(self, entry: Entry, budget: Budget, question: str) -> View | None:
        """The answer within the budget, if it is kept."""
        key = entry.digest, budget, question
        view = self._kept.get(key)
        if view is not None:
            self._kept.move_to_end(key)
        return view

    async def make(
        self,
        entry: Entry,
        manifest: Manifest,
        budget: Budget,
        question: str,
        client: str,
        deadline: float,
    ) -> View:
        """The answer within the budget, as a text, for a caller to whom it is not `known`. Callers
        that ask for the same one at once share the work. It ends when nobody waits for it any more.
        Raises `TimeoutError` at `deadline` (loop time), and `Shut`.
        """
        key = entry.digest, budget, question
        is_short = (
            len(entry.data) <= AT_ONCE
            and (entry.rows or 0) * len(entry.columns or ()) <= CELLS_AT_ONCE
            and len(question) <= QUESTION_AT_ONCE
            and is_loaded(budget.encoding)
        )
        if is_short and (self._extractor is None or not question):
            view = view_of(entry, _compress(entry, budget, question, _meanings(manifest)))
            self._keep(key, view)
            return view
        work = partial(self._made, key, entry, manifest, client)
        return await self._making.join(key, deadline, work)

    async def _made(
        self, key: _Key, entry: Entry, manifest: Manifest, client: str, _: Flight[View]
    ) -> View:
        over, (budget, question) = Event(), key[1:]
        OVER.set(over)  # of this task and its threads only
        try:
            made = await self._aside(client, entry, manifest, budget, question)
            is_for_model = question and not made.whole and manifest.intent_type != "transactional"
            if self._extractor is not None and is_for_model:
                read = await self._aside(client, entry, manifest, READ, question)
                extracted = await self._extractor.extracted(read, budget, question, made.of_tokens)
                if extracted is None:
                    return view_of(entry, made)  # it is not kept: the model may answer next time
                made = extracted
        finally:
            over.set()
        view = view_of(entry, made)
        self._keep(key, view)
        return view

    async def _aside(
        self, client: str, entry: Entry, manifest: Manifest, budget: Budget, question: str
    ) -> Compressed:
        """What a thread makes. The client has the thread until the work in it has ended, even if
        nobody waits any more.
        """
        await self._shares.take(client)
        in_thread = asyncio.ensure_future(
            to_thread.run_sync(
                _compress, entry, budget, question, _meanings(manifest), limiter=self._threads
            )
        )
        self._in_threads.add(in_thread)
        in_thread.add_done_callback(partial(self._left, client))
        return await asyncio.shield(in_thread)

    def _left(self, client: str, in_thread: asyncio.Future[Compressed]) -> None:
        self._in_threads.discard(in_thread)
        self._shares.give_back(client)
        if not in_thread.cancelled():
            in_thread.exception()  # maybe nobody waits for it any more

    def _keep(self, key: _Key, view: View) -> None:
        size = len(view.data) + len(view.about) + len(key[2])
        if key in self._kept or size > KEPT_BYTES // 16:
            return
        self._kept[key] = view
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            (_, _, question), oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.data) + len(oldest.about) + len(question)


def _compress(
    entry: Entry, budget: Budget, question: str, meanings: Mapping[str, str]
) -> Compressed:
    from gateway.compress.answer import compress  # few processes shorten: it takes 40 ms

    return compress(entry, budget, question, meanings)


def _meanings(manifest: Manifest) -> dict[str, str]:
    return {c.name: c.description for c in manifest.columns if c.description}


def view_of(entry: Entry, made: Compressed) -> View:
    """The shortened answer as a view: its data is a JSON string."""
    compression: dict[str, Any] = {
        "form": made.form,
        "tokens": made.tokens,
        "of_tokens": made.of_tokens,
        "rows_shown": made.rows_shown,
        "columns_shown": made.columns_shown,
        "by": made.by,
    }
    if made.understood:
        compression["understood"] = made.understood
    about = {
        "columns": entry.columns,
        "rows": entry.rows,
        "truncated": not made.whole,
        "compression": compression,
    }
    data, said = orjson.dumps(made.text), orjson.dumps(about)[1:-1]
    return View(data, not made.whole, said, is_text=True)
