"""The digest of a run: a hash of everything that happened in it, except times.

Each call and each episode is hashed without its times and without call ids, which contain the time.
The hashes are added modulo 2^256 (the multiset hash AdHash of Bellare and Micciancio,
EUROCRYPT 1997), so the order in which episodes ended does not matter. Two runs with the same agent,
seed and snapshot have the same digest.
"""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from bench.json_lines import JsonLinesError, ended_lines
from bench.record import OPTIONAL
from bench.runs.about import RunDirectoryError

_TIMES = ("at", "started_at", "elapsed_ms", "age_s", "call_id")
_OPTIONAL = ("labelled_arguments", "difficulty", "answered_by", "reasoning", "lied", *OPTIONAL)
"""Fields that count only where they are not empty: older records lack them."""


def run_digest(run_dir: Path) -> str:
    """64 hex digits over `calls.jsonl` and `episodes.jsonl`; an incomplete last line is left out.

    Raises `RunDirectoryError`.
    """
    return digest_of(run_dir)[0]


def digest_of(run_dir: Path) -> tuple[str, dict[str, int]]:
    """The digest as by `run_digest`, and the numbers of calls and episodes in it."""
    total, counts = 0, {"calls": 0, "episodes": 0}
    for name in counts:
        for text in _texts(run_dir, name):
            total += int.from_bytes(blake2b(text, digest_size=32).digest(), "big")
            counts[name] += 1
    return f"{total % 2**256:064x}", counts


def _texts(run_dir: Path, name: str) -> Iterator[bytes]:
    try:
        for line in ended_lines(run_dir / f"{name}.jsonl"):
            try:
                record = orjson.loads(line.text)
                if not isinstance(record, dict):
                    raise line.error("not a record")
                yield orjson.dumps([name, _timeless(record)], option=orjson.OPT_SORT_KEYS)
            except orjson.JSONDecodeError as error:
                raise line.error(f"not JSON: {error}") from error
            except TypeError as error:  # orjson reads deeper objects than it writes
                raise line.error(f"not a record: {error}") from error
    except JsonLinesError as error:
        raise RunDirectoryError(str(error)) from error


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    timeless = {
        name: value
        for name, value in record.items()
        if name not in _TIMES and (value or name not in _OPTIONAL)
    }
    for name in ("tool_calls", "model_calls"):
        if isinstance(calls := timeless.get(name), list):
            timeless[name] = [_timeless(call) if isinstance(call, dict) else call for call in calls]
    if isinstance(judgement := timeless.get("judgement"), dict):
        timeless["judgement"] = _timeless(judgement)
    return timeless
