"""Shortened answers for the call pipeline: made aside if they are long, and kept for a while."""

import asyncio
from collections import OrderedDict
from typing import Any

import anyio
import orjson
from anyio import to_thread

from cache import Entry, View
from gateway.compress.answer import Compressed, compress
from gateway.compress.budget import Budget, is_loaded
from gateway.compress.extractor import READ, Extractor
from manifests import Manifest

AT_ONCE = 2**14
"""Longer answers, in bytes, are shortened in a thread."""

THREADS = 2
"""How many answers are shortened at once in threads. One of 32 MB takes 0.3 GB meanwhile."""

KEPT_BYTES = 8 * 2**20
"""How much of shortened answers is kept."""

_Key = tuple[str, Budget, str]


class Shortener:
    """Shortens answers for one event loop."""

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor
        self._kept: OrderedDict[_Key, View] = OrderedDict()
        self._bytes = 0
        self._threads = anyio.CapacityLimiter(THREADS)
        self._making: dict[_Key, asyncio.Task[View]] = {}

    async def aclose(self) -> None:
        """End what is being made."""
        making = [*self._making.values()]
        for task in making:
            task.cancel()
        if making:
            await asyncio.wait(making)

    def known(self, entry: Entry, budget: Budget, question: str) -> View | None:
        """The answer within the budget, if it is kept."""
        key = entry.digest, budget, question
        view = self._kept.get(key)
        if view is not None:
            self._kept.move_to_end(key)
        return view

    async def make(self, entry: Entry, manifest: Manifest, budget: Budget, question: str) -> View:
        """The answer within the budget, as a text, for a caller to whom it is not `known`. Callers
        that ask for the same one at once share the work.
        """
        key = entry.digest, budget, question
        is_short = len(entry.data) <= AT_ONCE and is_loaded(budget.encoding)
        if is_short and (self._extractor is None or not question):
            view = view_of(entry, compress(entry, budget, question, _meanings(manifest)))
            self._keep(key, view)
            return view
        task = self._making.get(key)
        if task is None:
            task = asyncio.create_task(self._made(key, entry, manifest))
            self._making[key] = task
            task.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(task)

    async def _made(self, key: _Key, entry: Entry, manifest: Manifest) -> View:
        _, budget, question = key
        made = await self._aside(entry, manifest, budget, question)
        is_for_model = question and not made.whole and manifest.intent_type != "transactional"
        if self._extractor is not None and is_for_model:
            read = await self._aside(entry, manifest, READ, question)
            extracted = await self._extractor.extracted(read, budget, question, made.of_tokens)
            if extracted is None:
                return view_of(entry, made)  # it is not kept: the model may answer the next time
            made = extracted
        view = view_of(entry, made)
        self._keep(key, view)
        return view

    async def _aside(
        self, entry: Entry, manifest: Manifest, budget: Budget, question: str
    ) -> Compressed:
        meanings = _meanings(manifest)
        return await to_thread.run_sync(
            compress, entry, budget, question, meanings, limiter=self._threads
        )

    def _keep(self, key: _Key, view: View) -> None:
        size = len(view.data) + len(view.about) + len(key[2])
        if key in self._kept or size > KEPT_BYTES // 16:
            return
        self._kept[key] = view
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            (_, _, question), oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.data) + len(oldest.about) + len(question)


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
