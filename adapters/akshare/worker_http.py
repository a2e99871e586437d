"""Bounds and redirects AkShare's requests in a worker process, whichever library a function uses.

No wait on a socket, no `time.sleep` and no request of requests, urllib, urllib3 or curl_cffi takes
longer than the time left for its call. All requests sessions of the worker share one connection
pool and one TLS context (21.7 -> 2.5 ms of CPU a request over TLS). Transport trouble is noted,
because many functions swallow it and return nothing. If `base_url` is set, all requests go there,
with the original host in a header.
"""

import ctypes
import functools
import http.client
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests.adapters
import requests.sessions
import urllib3

from adapters.fault import UpstreamFault, fault_of_status
from adapters.host import ORIGINAL_HOST

_Result = TypeVar("_Result")

_RAISE_IN_THREAD = ctypes.pythonapi.PyThreadState_SetAsyncExc
_RAISE_IN_THREAD.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Expired(BaseException):
    """The call's deadline has passed. No `except Exception` of upstream code can swallow it."""


class Call:
    """One call in this process. A lock guards the state that two threads share."""

    def __init__(
        self, number: int, function: str, arguments: Mapping[str, Any], deadline: float
    ) -> None:
        self.number = number
        self.function = function
        self.arguments = arguments
        self.deadline = deadline
        self.secrets: frozenset[str] = frozenset()
        """Masked in the answer if the upstream repeats them."""
        self.trouble: UpstreamFault | None = None
        """A transport failure on the way to an upstream, whether or not the function noticed it."""
        self.begun = False
        self.interrupted = False
        self.given_up = False
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._socket: socket.socket | None = None
        self.answered = False

    def remaining_s(self) -> float:
        """Return the seconds left. Raises `Expired`. A thread that was given up blocks here."""
        left = self.deadline - time.monotonic()
        if left <= 0 and self.given_up:
            threading.Event().wait()  # it would retry for ever and take time from others
        if left <= 0:
            raise Expired
        return left

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`. Raises `Expired` after the deadline, even if `work` caught
        it.
        """
        self.remaining_s()
        with self._lock:
            self._thread = threading.get_ident()
        try:
            return work()
        finally:
            while self._thread is not None:
                try:
                    self._leave()
                except Expired:  # raised in this thread just when `work` ended
                    continue
            self.remaining_s()

    def _leave(self) -> None:
        with self._lock:
            _RAISE_IN_THREAD(threading.get_ident(), ctypes.py_object())  # clears a pending one
            self._thread = None

    def interrupt(self) -> None:
        """Raise `Expired` in the thread that is inside `run`, at its current instruction."""
        with self._lock:
            if self._thread is not None:
                self.interrupted = True
                _RAISE_IN_THREAD(self._thread, Expired)

    def cancel(self) -> None:
        """Set the deadline to now, and wake the thread from its sleep or its wait on a socket."""
        with self._lock:
            self.deadline = min(self.deadline, time.monotonic())
            if self._socket is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # TLS or not
        self._cancelled.set()

    def claim(self) -> bool:
        """Return True to the first caller, which may answer this call."""
        with self._lock:
            answered, self.answered = self.answered, True
        return not answered

    def sleep(self, seconds: float) -> None:
        self._cancelled.wait(min(seconds, self.remaining_s()))
        self.remaining_s()

    def wait_on(self, connection: socket.socket, wait: Callable[[], _Result]) -> _Result:
        """Return the result of `wait`, which waits on that socket. Raises `Expired`."""
        try:
            with self._lock:
                self._socket = connection
            left, timeout = self.remaining_s(), connection.gettimeout()
            if timeout is None or timeout > left:
                connection.settimeout(left)
            return wait()
        finally:
            with self._lock:
                self._socket = None
            self.remaining_s()


class _Current(threading.local):
    """The call that runs in this thread; None in a thread that upstream code started."""

    call: Call | None = None


CURRENT = _Current()


def _note(text: str, trouble: UpstreamFault) -> None:
    trouble.message = text
    if CURRENT.call is not None:
        CURRENT.call.trouble = trouble


def govern(base_url: str | None, threads: int) -> None:
    """Patch sockets, sleep, requests, urllib3, urllib, http.client and curl_cffi."""
    _govern_sockets()
    _govern_sleep()
    _govern_requests(base_url, threads)
    _govern_urllib(base_url)
    _govern_urllib3(base_url)
    _govern_curl(base_url)
    if base_url:
        http.client.HTTPSConnection = _redirected(base_url)  # type: ignore[assignment,misc]


def _govern_sockets() -> None:
    """Bound each single wait, so that a slowly dripping upstream ends at the deadline too."""
    plain, tls = socket.socket, ssl.SSLSocket
    for name in ("connect", "recv", "recv_into", "send", "sendall"):
        setattr(plain, name, _bounded_wait(getattr(plain, name)))
    for name in ("do_handshake", "read", "send"):
        setattr(tls, name, _bounded_wait(getattr(tls, name)))


def _bounded_wait(wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def bounded(self: socket.socket, *args: Any, **kw: Any) -> Any:
        call = CURRENT.call
        if call is None:
            return wait(self, *args, **kw)
        return call.wait_on(self, lambda: wait(self, *args, **kw))

    return bounded


def _govern_sleep() -> None:
    sleep = time.sleep

    def governed(seconds: Any) -> None:
        call = CURRENT.call
        if call is None or seconds <= 0:
            sleep(seconds)
        else:
            call.sleep(seconds)

    time.sleep = governed


def _elsewhere(url: str, base_url: str | None) -> tuple[str, dict[str, str]]:
    if not base_url or url.startswith(base_url):
        return url, {}
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{base_url}{parts.path or '/'}{query}", {ORIGINAL_HOST: parts.netloc}


def _sent(send: Callable[[], Any], failures: type[Exception]) -> Any:
    """Return the response of `send`; note what it raises and a status that says failure."""
    try:
        response = send()
    except failures as error:
        _note(type(error).__name__, UpstreamFault("unreachable", "", retryable=True))
        raise
    status = response.status_code if hasattr(response, "status_code") else response.status
    if (status or 0) >= 400:
        _note(f"HTTP {status}", fault_of_status(status, response.headers.get("Retry-After")))
    return response


def _bounded(timeout: Any) -> Any:
    if CURRENT.call is None:
        return timeout
    left = CURRENT.call.remaining_s()
    if isinstance(timeout, tuple):
        return tuple(left if part is None else min(part, left) for part in timeout)
    return min(timeout, left) if isinstance(timeout, int | float) else left


class _SharedAdapter(requests.adapters.HTTPAdapter):
    """Stays open when a session that used it closes."""

    def close(self) -> None:
        pass


def _govern_requests(base_url: str | None, threads: int) -> None:
    shared = _SharedAdapter(pool_connections=64, pool_maxsize=threads)
    send = requests.adapters.HTTPAdapter.send

    def governed(self: Any, request: Any, timeout: Any = None, **kw: Any) -> Any:
        request.url, header = _elsewhere(request.url, base_url)
        request.headers.update(header)
        bounded = partial(send, self, request, timeout=_bounded(timeout), **kw)
        return _sent(bounded, requests.RequestException)

    requests.adapters.HTTPAdapter.send = governed  # type: ignore[method-assign, assignment]
    requests.sessions.HTTPAdapter = lambda: shared  # type: ignore[assignment,misc]


def _govern_urllib(base_url: str | None) -> None:
    director = urllib.request.OpenerDirector
    open_ = director.open

    def governed(self: Any, fullurl: Any, data: Any = None, timeout: Any = None) -> Any:
        request = fullurl if isinstance(fullurl, urllib.request.Request) else None
        request = request or urllib.request.Request(fullurl, data)  # noqa: S310 - upstream's URL
        request.full_url, header = _elsewhere(request.full_url, base_url)
        request.headers.update(header)
        return _sent(partial(open_, self, request, data, _bounded(timeout)), OSError)

    director.open = governed  # type: ignore[method-assign]


def _govern_urllib3(base_url: str | None) -> None:
    urlopen = urllib3.PoolManager.urlopen

    def governed(self: Any, method: str, url: str, redirect: bool = True, **kw: Any) -> Any:
        url, header = _elsewhere(url, base_url)
        kw["headers"] = {**(kw.get("headers") or self.headers), **header}
        kw["timeout"] = _bounded(kw.get("timeout"))
        kw["retries"] = urllib3.Retry(connect=0, read=0, redirect=3, other=0)  # one wait, one bound
        send = partial(urlopen, self, method, url, redirect, **kw)
        return _sent(send, urllib3.exceptions.HTTPError)

    urllib3.PoolManager.urlopen = governed  # type: ignore[method-assign]


def _govern_curl(base_url: str | None) -> None:
    try:
        from curl_cffi import requests as curl
    except ImportError:
        return
    request = curl.Session.request

    def governed(self: Any, method: Any, url: str, *args: Any, **kw: Any) -> Any:
        url, header = _elsewhere(url, base_url)
        kw["headers"] = {**(kw.get("headers") or {}), **header}
        timeout = kw.get("timeout")  # curl takes the sum of a pair
        kw["timeout"] = _bounded(None if isinstance(timeout, tuple) else timeout)
        if base_url:
            kw["allow_redirects"] = False  # curl would follow one to the real host
        return _sent(partial(request, self, method, url, *args, **kw), OSError)

    curl.Session.request = governed  # type: ignore[method-assign]


def _redirected(base_url: str) -> type[http.client.HTTPConnection]:
    class Redirected(http.client.HTTPConnection):
        def __init__(self, host: str, *_: Any, **__: Any) -> None:
            self._meant_for = host
            super().__init__(urlsplit(base_url).netloc, timeout=_bounded(None))

        def endheaders(self, *args: Any, **kw: Any) -> None:
            self.putheader(ORIGINAL_HOST, self._meant_for)
            super().endheaders(*args, **kw)

    return Redirected
