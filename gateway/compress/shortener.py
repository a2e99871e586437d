"""Shortened answers for the call pipeline: made aside if they are long, and kept for a while."""

from collections import OrderedDict

import anyio
import orjson
from anyio import to_thread

from cache import Entry, View
from gateway.compress.answer import Compressed, compress
from gateway.compress.budget import Budget
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

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, View] = OrderedDict()
        self._bytes = 0
        self._threads = anyio.CapacityLimiter(THREADS)
        self._loaded: set[str] = set()

    async def view(self, entry: Entry, manifest: Manifest, budget: Budget, question: str) -> View:
        """The answer within the budget, as a text. The same one is given again while it is kept."""
        key = entry.digest, budget, question
        view = self._kept.get(key)
        if view is None:
            view = await self._made(entry, manifest, budget, question)
            self._keep(key, view)
        else:
            self._kept.move_to_end(key)
        return view

    async def _made(self, entry: Entry, manifest: Manifest, budget: Budget, question: str) -> View:
        meanings = {c.name: c.description for c in manifest.columns if c.description}
        if len(entry.data) <= AT_ONCE and budget.encoding in self._loaded:
            return view_of(entry, compress(entry, budget, question, meanings))
        made = await to_thread.run_sync(
            compress, entry, budget, question, meanings, limiter=self._threads
        )
        self._loaded.add(budget.encoding)
        return view_of(entry, made)

    def _keep(self, key: _Key, view: View) -> None:
        size = len(view.data) + len(view.about) + len(key[2])
        if key in self._kept or size > KEPT_BYTES // 16:
            return
        self._kept[key] = view
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            (_, _, question), oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.data) + len(oldest.about) + len(question)


def view_of(entry: Entry, made: Compressed) -> View:
    """The shortened answer as a view: its data is a JSON string."""
    compression = {
        "form": made.form,
        "tokens": made.tokens,
        "of_tokens": made.of_tokens,
        "rows_shown": made.rows_shown,
        "columns_shown": made.columns_shown,
        "by": made.by,
    }
    about = {
        "columns": entry.columns,
        "rows": entry.rows,
        "truncated": not made.whole,
        "offset": 0,
        "shown": None,
        "compression": compression,
    }
    data, said = orjson.dumps(made.text), orjson.dumps(about)[1:-1]
    return View(data, not made.whole, said, is_text=True)
