"""The rows of a snapshot: outcomes of calls become rows, and rows become outcomes again."""

import orjson
from anyio import to_thread

from cache import Clock, Entry, Row, Snapshot, SnapshotError
from cache.row import OK
from gateway.errors import CallError, ErrorCode
from gateway.pipeline.bind import BoundCall


def row_of(bound: BoundCall, entry: Entry, status: str = OK) -> Row:
    """A row for an answer, or for what `status` says."""
    manifest = bound.plan.manifest
    return Row(manifest.name, manifest.revision, bound.arguments, status, entry)


def row_of_error(
    bound: BoundCall, error: CallError, upstream: str, took_ms: float, clock: Clock
) -> Row:
    """A row for an error as the caller got it; `CallError.from_dict` reads it back."""
    entry = Entry(
        data=orjson.dumps(error.to_dict()),
        columns=None,
        rows=None,
        recorded_at=recorded_now(clock),
        latency_ms=round(took_ms, 3),
        upstream=upstream,
    )
    return row_of(bound, entry, error.code.value)


def error_of_row(row: Row, snapshot: Snapshot) -> CallError:
    """Raises `SnapshotError`."""
    try:
        return CallError.from_dict(orjson.loads(row.entry.data))
    except (KeyError, ValueError) as unread:
        text = f"{snapshot.path}: the error recorded of {row.tool} is none: {unread}"
        raise SnapshotError(text) from None


async def not_in_snapshot(bound: BoundCall, snapshot: Snapshot) -> CallError:
    """Why a call can't be answered offline, and what was recorded of its tool instead.

    Raises `SnapshotError` where that can't be read.
    """
    name = bound.plan.manifest.name
    nearest = await to_thread.run_sync(snapshot.nearest, name, bound.arguments)
    text = f"this call of {name} is not in snapshot {snapshot.id[:12]}"
    if bound.arguments in nearest:
        text += "; it was recorded under another revision of the tool's manifest"
    elif nearest:
        text += f"; nearest recorded: {orjson.dumps(nearest[0]).decode()}"
    else:
        text += ", and neither is any other call of that tool"
    details = {"snapshot": snapshot.id, "arguments": bound.arguments, "nearest": nearest}
    return CallError(ErrorCode.NOT_IN_SNAPSHOT, text, details=details)


def never_recorded(bound: BoundCall, snapshot: str | None) -> CallError:
    """Why a call of a transactional tool can't be answered offline, whatever a snapshot holds."""
    name = bound.plan.manifest.name
    text = f"{name} is transactional: its answers are never recorded, so offline there is none"
    details: dict[str, object] = {"snapshot": snapshot, "arguments": bound.arguments}
    return CallError(ErrorCode.NOT_IN_SNAPSHOT, text, details={**details, "nearest": []})


def recorded_now(clock: Clock) -> float:
    """Unix time rounded down to the millisecond."""
    return int(clock.wall() * 1e3) / 1e3
