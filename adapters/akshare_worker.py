"""The process in which real AkShare functions run: `python -m adapters.akshare_worker`.

Frames come in on standard input and go out on what was standard output; everything that upstream
code prints is thrown away. Only functions named in the first frame are ever called, with keyword
arguments. Whatever a function does, its call ends in exactly one reply: an answer or a fault. The
process ends when its standard input closes, so it never outlives its parent.

A frame is two big-endian 32-bit lengths, a JSON head, and a body.
In: `{"functions", "base_url", "threads"}`, then `{"id", "function", "arguments", "timeout_s"}`.
Out: `{"ready": version}` or `{"failed": reason}`, then per call `{"id", "columns", "rows"}` with
the data as body, or `{"id", "fault"}`.
"""

import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import orjson

LENGTHS = struct.Struct(">II")

NICE = 10
"""Where processors are short, the gateway's event loop goes before the parsing of tables."""

EMPTY_DOCUMENTS = (b"[]", b"{}", b"null", b'""')

Reply = tuple[dict[str, Any], bytes]


def frame(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One message, ready to write."""
    text = orjson.dumps(head)
    return LENGTHS.pack(len(text), len(body)) + text + body


class Worker:
    """Threads that run calls from one queue and write their replies to one pipe."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], out: BinaryIO) -> None:
        self._functions = functions
        self._out = out
        self._writing = threading.Lock()
        self._jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def start(self, threads: int) -> None:
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, job: dict[str, Any]) -> None:
        self._jobs.put({**job, "deadline": time.monotonic() + job["timeout_s"]})

    def reply(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        self._send(frame(head, body))

    def _send(self, message: bytes) -> None:
        with self._writing:
            self._out.write(message)
            self._out.flush()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                head, body = self._run(job)
                message = frame({"id": job["id"], **head}, body)
            except BaseException:  # noqa: BLE001 - one reply a call, whatever its result does
                fault = {"kind": "invalid", "message": "the answer can't be encoded"}
                message = frame({"id": job["id"], "fault": {**fault, "retryable": False}})
            self._send(message)

    def _run(self, job: Mapping[str, Any]) -> Reply:
        from adapters.worker_http import CURRENT

        CURRENT.deadline, CURRENT.trouble = job["deadline"], None
        function = self._functions.get(job["function"])
        if function is None:
            text = f"the installed AkShare has no function {job['function']}"
            return _fault("not_configured", text)
        return _call(function, job["arguments"])


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Reply:
    """Run one function; its exceptions become faults, its result an answer."""
    from adapters.fault import UpstreamFault
    from adapters.normalise import MAX_BYTES, from_object
    from adapters.worker_http import CURRENT, Expired, remaining_s

    try:
        remaining_s()
        answer = from_object(function(**arguments))
    except Expired:
        return _fault("timeout", "the deadline passed", retryable=True)
    except UpstreamFault as fault:
        return _fault(fault.kind, fault.message)
    except BaseException as error:  # noqa: BLE001 - exit() and the like must cost one call only
        if any("Timeout" in base.__name__ for base in type(error).__mro__):
            return _fault("timeout", "the upstream did not answer in time", retryable=True)
        # The text of an exception may hold a URL with a credential in it, or a path: it stays here.
        return _fault("invalid", f"the function raised {type(error).__name__}")
    if CURRENT.trouble and (answer.rows == 0 or answer.data in EMPTY_DOCUMENTS):
        return _fault("empty", "the function returned nothing")
    if len(answer.data) > MAX_BYTES:
        return _fault("too_large", f"the answer is over {MAX_BYTES} bytes")
    return {"columns": answer.columns, "rows": answer.rows}, answer.data


def _fault(kind: str, message: str, retryable: bool = False) -> Reply:
    """A failed call; transport trouble seen on the way is the likelier cause and says so."""
    from adapters.worker_http import CURRENT

    trouble, retry_after_s = CURRENT.trouble, None
    if trouble is not None and kind not in ("timeout", "too_large"):
        kind, retryable = trouble.kind, trouble.retryable
        message, retry_after_s = f"{message}, after {trouble.text}", trouble.retry_after_s
    fault = {"kind": kind, "message": message, "retryable": retryable}
    return {"fault": {**fault, "retry_after_s": retry_after_s}}, b""


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    text = stream.read(head + body)
    return None if len(text) < head + body else orjson.loads(text[:head])


def main() -> None:
    os.nice(NICE)
    out, frames = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # upstream code neither reads our frames nor writes among them
        os.dup2(nowhere, standard)
    os.environ["TQDM_DISABLE"] = "1"
    # Where pyarrow is installed pandas would take it for strings: 47 MiB more, and no faster.
    sys.modules["pyarrow"] = None  # type: ignore[assignment]  # the import system's "there is none"
    hello = _read(frames)
    if hello is None:
        return
    worker = Worker({}, out)
    try:
        import akshare

        from adapters.worker_http import govern
    except Exception as error:  # noqa: BLE001 - told to the parent, which tells the caller
        worker.reply({"failed": f"AkShare can't be imported: {type(error).__name__}: {error}"})
        return
    govern(hello["base_url"], hello["threads"])
    allowed = {n: getattr(akshare, n) for n in hello["functions"] if hasattr(akshare, n)}
    worker = Worker(allowed, out)
    worker.start(hello["threads"])
    worker.reply({"ready": akshare.__version__})
    while (job := _read(frames)) is not None:
        worker.submit(job)
    os._exit(0)  # the parent is gone; threads may hang in upstream code


if __name__ == "__main__":
    main()
