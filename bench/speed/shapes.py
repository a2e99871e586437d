"""Speed of comparing the shape of an answer with that of earlier ones.

A table of 1,000 x 11 and a document are compared with what is known of them, in a file, beside
parsing the same answer with orjson. Nothing differs, as in most answers, so nothing is written.
"""

import random
from functools import partial

import orjson

from bench.speed.compress import TRIES, price_table
from bench.speed.harness import Figures, Harness, cpu_ms, log
from cache import Entry
from gateway.shapes.shape import shape_of
from gateway.shapes.store import ShapeStore

ROWS, ELEMENTS = 1_000, 400


async def measure(harness: Harness) -> Figures:
    """Milliseconds of processor time for one answer."""
    figures, tries = {"rows": float(ROWS)}, harness.number(TRIES)
    store = ShapeStore.open(harness.folder / "shapes.sqlite")
    for name, entry in {"table": price_table(ROWS, 0), "document": _document()}.items():
        log.info("a %s of %d bytes", name, len(entry.data))

        def compare(name: str = name, entry: Entry = entry) -> None:
            store.learn(name, "{}", shape_of(entry), entry.upstream, entry.recorded_at)

        compare()
        figures[f"{name}_bytes"] = len(entry.data)
        figures[f"{name}_ms"] = cpu_ms(compare, tries)
        figures[f"{name}_parsed_ms"] = cpu_ms(partial(orjson.loads, entry.data), tries)
    store.close()
    return figures


def _document() -> Entry:
    luck = random.Random(0)  # noqa: S311 - test data
    items = [
        {"id": n, "name": f"Coin {n}", **{f"price_{k}": luck.random() for k in "abcdefgh"}}
        for n in range(ELEMENTS)
    ]
    data = orjson.dumps({"status": "success", "data": {"items": items}})
    return Entry(data, None, None, 0.0, 0.0, "simulated")
