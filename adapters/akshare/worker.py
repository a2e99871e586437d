"""The process in which real AkShare functions run: `python -m adapters.akshare.worker`.

Frames come in on the original standard input and go out on the original standard output; all that
upstream code prints is discarded. Only functions named in the first frame are called, with keyword
arguments. Each call ends in exactly one reply, whatever its function does: an answer or a fault. A
function that continues after its deadline is interrupted, then abandoned. An interruption or a lack
of memory leaves the process in an unknown state, so it then asks to be retired. It ends when its
standard input closes, so it never outlives its parent.

In: `{"functions", "base_url", "threads", "worker_bytes"}`, then
`{"id", "function", "arguments", "credentials", "timeout_s"}` or `{"cancel": id}`.
Out: `{"ready": version}` or `{"failed": reason}`, then per call
`{"id", "bytes", "retire", "columns", "rows"}` with the data as body, or
`{"id", "bytes", "retire", "fault", "again"}`; `bytes` is the process's resident memory, 0 if
unknown, and `again` says that other calls may be to blame for the fault.
"""

import ctypes
import gc
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from adapters.fault import Kind, UpstreamFault
from adapters.frames import bound_memory, frame, own_pipes, read_frame, resident_bytes
from adapters.mask import mask_of
from adapters.normalise import MAX_BYTES, from_object, masked

if TYPE_CHECKING:  # the parent may import this module, and does not need requests
    from adapters.akshare.worker_caches import Caches
    from adapters.akshare.worker_http import Call

NICE = 10
"""Niceness: if processors are short, the gateway's event loop goes before parsing of tables."""

WATCH_S = 0.2
"""Seconds between two checks of all calls, and so between two interruptions of one call."""

INTERRUPT_S = 0.3
"""Seconds after its deadline when a call is interrupted, unless a bounded wait ended it before."""

GIVE_UP_S = 0.7
"""Seconds after its deadline when a call is answered without waiting for its thread."""

SWITCH_S = 0.0005
"""Python's switch interval while a thread may spin: at the default 5 ms the others hardly run."""

MAX_THREADS = 100
"""More threads mean that upstream code has left some behind."""

NOBODY = 65534
PR_SET_NO_NEW_PRIVS = 38
CAP_KILL = 5

_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

EMPTY_DOCUMENTS = (b"[]", b"{}", b"null", b'""')

Reply = tuple[dict[str, Any], bytes]


class Worker:
    """Threads that run calls from one queue and write their replies to one pipe."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        out: BinaryIO,
        caches: "Caches | None" = None,
    ) -> None:
        self._functions = functions
        self._caches = caches
        self._out = out
        self._writing = threading.Lock()
        self._jobs: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._calls: dict[int, Call] = {}
        self._retire = False
        self._process = os.getpid()

    def start(self, threads: int) -> None:
        for work in (self._watch, *[self._work] * threads):
            threading.Thread(target=work, daemon=True).start()

    def submit(self, job: Mapping[str, Any]) -> None:
        from adapters.akshare.worker_http import Call

        deadline = time.monotonic() + job["timeout_s"]
        arguments, credentials = job["arguments"], job["credentials"]
        call = Call(job["id"], job["function"], {**arguments, **credentials}, deadline)
        call.secrets = frozenset(credentials.values())
        self._calls[call.number] = call
        self._jobs.put(call)

    def cancel(self, number: int) -> None:
        """Cancel a call whose caller has left. It is answered at once if it has not begun, and ends
        soon otherwise.
        """
        call = self._calls.get(number)
        if call is not None:
            call.cancel()
            if not call.begun:
                self._answer(call, _late(call))

    def _work(self) -> None:
        while True:
            self._serve(self._jobs.get())

    def _serve(self, call: "Call") -> None:
        from adapters.akshare.worker_http import CURRENT

        call.begun = True
        CURRENT.call = call
        reply = self._reply(call)
        CURRENT.call = None
        if os.getpid() != self._process:  # the function forked a child, which returned here
            os._exit(0)
        try:
            self._answer(call, reply)
        except MemoryError:
            self._answer(call, self._out_of_memory(call))
        except Exception:  # noqa: BLE001 - each call gets a reply, even if this can't be a frame
            self._answer(call, _fault(call, "invalid", "the answer can't be encoded"))
        del self._calls[call.number]

    def _reply(self, call: "Call") -> Reply:
        """Run one function; turn its result into an answer and its exceptions into faults."""
        from adapters.akshare.worker_http import Expired

        function = self._functions.get(call.function)
        if function is None:
            text = f"the installed AkShare has no function {call.function}"
            return _fault(call, "not_configured", text)
        if self._caches is not None:
            self._caches.renew()
        try:
            mask = mask_of(call.secrets)
            answer = call.run(lambda: masked(from_object(function(**call.arguments)), mask))
        except Expired:
            return _late(call)
        except UpstreamFault as fault:
            return _fault(call, fault.kind, fault.message)
        except MemoryError:
            return self._out_of_memory(call)
        except BaseException as error:  # noqa: BLE001 - exit() and the like must fail one call only
            if any("Timeout" in base.__name__ for base in type(error).__mro__):
                text = "the upstream did not answer in time"
                return _fault(call, "timeout", text, retryable=True)
            # Its text may hold a path, or a URL with a credential, so it is not sent.
            text = f"the function raised {type(error).__name__}"
            if call.trouble is None or not (
                call.trouble.retryable or call.trouble.kind == "banned"
            ):
                why = "the upstream may not know an argument's value, or answers in a new form"
                text = f"{text}: {why}"
            return _fault(call, "invalid", text)
        if call.trouble and (answer.rows == 0 or answer.data in EMPTY_DOCUMENTS):
            return _fault(call, "empty", "the function returned nothing")
        if len(answer.data) > MAX_BYTES:
            return _fault(call, "too_large", f"the answer is over {MAX_BYTES} bytes")
        return answer.head, answer.data

    def _out_of_memory(self, call: "Call") -> Reply:
        self._retire = True
        head, _ = _fault(call, "too_large", "the call ran out of its worker's memory")
        return {**head, "again": len(self._calls) > 1}, b""

    def _answer(self, call: "Call", reply: Reply) -> None:
        """Send the reply unless the call already has one."""
        head, body = reply
        self._retire |= call.interrupted or threading.active_count() > MAX_THREADS
        resident = 0 if self._retire else resident_bytes()
        state = {"id": call.number, "bytes": resident, "retire": self._retire}
        message = frame({**state, **head}, body)
        if call.claim():
            self.send(message)

    def send(self, message: bytes) -> None:
        with self._writing:
            self._out.write(message)
            self._out.flush()

    def _watch(self) -> None:
        stood = False
        while True:
            began = time.monotonic()
            time.sleep(WATCH_S)
            stood = not stood and time.monotonic() > began + 2 * WATCH_S
            if stood:
                continue  # the whole process was stalled: give calls time to end by themselves
            with suppress(MemoryError):
                for call in list(self._calls.values()):
                    self._press(call)

    def _press(self, call: "Call") -> None:
        """Interrupt a call that continues after its deadline; abandon it if that does not help.

        Upstream code may catch the interruption or wait in C. Then its thread is lost.
        """
        late_s = time.monotonic() - call.deadline
        if late_s > INTERRUPT_S:
            call.interrupt()
            sys.setswitchinterval(SWITCH_S)
        if late_s > GIVE_UP_S and not call.answered:
            call.given_up = call.begun
            self._retire |= call.begun
            self._answer(call, _late(call))


def _late(call: "Call") -> Reply:
    return _fault(call, "timeout", "the deadline passed", retryable=True)


def _fault(call: "Call", kind: Kind, message: str, retryable: bool = False) -> Reply:
    """Return a fault. If transport trouble was noted, it is the likelier cause and is named."""
    fault = UpstreamFault(kind, message, retryable=retryable).arguments
    if call.trouble is not None and kind not in ("timeout", "too_large"):
        message = f"{message}, after {call.trouble.message}"
        fault = {**call.trouble.arguments, "message": message}
    return {"fault": fault}, b""


def _function(akshare: ModuleType, name: str) -> Callable[..., Any] | None:
    """AkShare's own function of that name. Its modules and classes, and what it imports from
    others, are none.
    """
    found = getattr(akshare, name, None)
    package = str(getattr(found, "__module__", "")).partition(".")[0]
    is_own = package == akshare.__name__ and not isinstance(found, type)
    return found if is_own and callable(found) else None


def _confine(worker_bytes: int) -> None:
    """Bound the memory, with `MemoryError` for a call over it; forbid core dumps and new rights."""
    bound_memory(2 * worker_bytes)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _leave_root(files: Iterable[str]) -> None:
    """Switch from root to the user nobody, if nobody can read `files` and the parent, as root, may
    still kill this process.
    """
    if sys.platform != "linux" or os.getuid() != 0 or not _may_kill():
        return
    groups = os.getgroups()
    try:
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    except OSError:  # a container without that right
        return
    readable = all(os.access(file, os.R_OK, effective_ids=True) for file in files)
    os.seteuid(0)
    os.setegid(0)
    if readable:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    else:
        os.setgroups(groups)


def _may_kill() -> bool:
    """Whether root may signal processes of other users, a right that it may lack in a container."""
    with open("/proc/self/status", encoding="utf-8") as status:
        (rights,) = (line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(rights, 16) & 1 << CAP_KILL)


def main() -> None:
    os.nice(NICE)
    frames, out = own_pipes()  # upstream code can neither read our frames nor write between them
    os.environ["TQDM_DISABLE"] = "1"
    # If pyarrow is installed, pandas would use it for strings: 47 MiB more, and no faster.
    sys.modules["pyarrow"] = None  # type: ignore[assignment]  # the import system's "there is none"
    first = read_frame(frames)
    if first is None:
        return
    hello, _ = first
    worker = Worker({}, out)
    gc.disable()  # collections find nothing while modules are imported, for a fifth of the time
    try:
        import akshare

        from adapters.akshare.worker_caches import Caches
        from adapters.akshare.worker_http import govern
    except Exception as error:  # noqa: BLE001 - sent to the parent, which reports it to the caller
        reason = f"AkShare can't be imported: {type(error).__name__}: {error}"
        worker.send(frame({"failed": reason}))
        return
    gc.freeze()
    gc.enable()
    certificates = [os.environ[name] for name in _CERTIFICATES if name in os.environ]
    _leave_root([sys.prefix, os.__file__, akshare.__file__, __file__, *certificates])
    _confine(hello["worker_bytes"])
    govern(hello["base_url"], hello["threads"])
    allowed = {n: found for n in hello["functions"] if (found := _function(akshare, n)) is not None}
    own = [m for name, m in sys.modules.items() if name.partition(".")[0] == akshare.__name__]
    worker = Worker(allowed, out, Caches(own))
    worker.start(hello["threads"])
    os.register_at_fork(after_in_child=lambda: os.close(out.fileno()))
    worker.send(frame({"ready": akshare.__version__}))
    try:
        while (message := read_frame(frames)) is not None:
            job, _ = message
            if "cancel" in job:
                worker.cancel(job["cancel"])
            else:
                worker.submit(job)
    finally:
        os._exit(0)  # the parent closed the pipe or is gone; threads may hang in upstream code


if __name__ == "__main__":
    main()
