"""How AkShare's HTTP is governed inside a worker process, whichever library a function uses.

No wait on a socket of requests, urllib, urllib3 or curl_cffi is longer than what is left of its
call; all requests sessions of the worker share one connection pool and one TLS context (21.7 ->
2.5 ms of CPU a request over TLS); transport trouble is noted, since many functions swallow it and
return nothing; and all requests go to `base_url` when one is set, with the host they were meant for
in a header.
"""

import http.client
import threading
import time
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests.adapters
import requests.sessions
import urllib3

from adapters.fault import Kind, fault_of_status
from adapters.host import ORIGINAL_HOST


class Expired(BaseException):
    """The call's deadline has passed. No `except Exception` of upstream code may swallow it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong on the way to an upstream, whether or not the function noticed."""

    text: str
    kind: Kind = "unreachable"
    retryable: bool = True
    retry_after_s: float | None = None


class _Current(threading.local):
    """The call that runs in this thread."""

    deadline: float = float("inf")
    trouble: Trouble | None = None


CURRENT = _Current()


def remaining_s() -> float:
    """Seconds left for the call in this thread. Raises `Expired`."""
    left = CURRENT.deadline - time.monotonic()
    if left <= 0:
        raise Expired
    return left


def govern(base_url: str | None, threads: int) -> None:
    """Take charge of requests, urllib3, urllib, http.client and (where installed) curl_cffi."""
    _govern_requests(base_url, threads)
    _govern_urllib(base_url)
    _govern_urllib3(base_url)
    _govern_curl(base_url)
    if base_url:
        http.client.HTTPSConnection = _redirected(base_url)  # type: ignore[assignment,misc]


def _elsewhere(url: str, base_url: str | None) -> tuple[str, dict[str, str]]:
    if not base_url or url.startswith(base_url):
        return url, {}
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{base_url}{parts.path or '/'}{query}", {ORIGINAL_HOST: parts.netloc}


def _note_status(status: int, headers: Any) -> None:
    if status >= 400:
        fault = fault_of_status(status, headers.get("Retry-After"))
        text = f"HTTP {status}"
        CURRENT.trouble = Trouble(text, fault.kind, fault.retryable, fault.retry_after_s)


def _bounded(timeout: Any) -> Any:
    left = remaining_s()
    if left == float("inf"):  # a thread that upstream code started by itself
        return timeout
    if isinstance(timeout, tuple):
        return tuple(left if part is None else min(part, left) for part in timeout)
    return min(timeout, left) if isinstance(timeout, int | float) else left


class _SharedAdapter(requests.adapters.HTTPAdapter):
    """Outlives the session that used it."""

    def close(self) -> None:
        pass


def _govern_requests(base_url: str | None, threads: int) -> None:
    shared = _SharedAdapter(pool_connections=64, pool_maxsize=threads)
    send = requests.adapters.HTTPAdapter.send

    def governed(
        self: requests.adapters.HTTPAdapter,
        request: Any,
        timeout: Any = None,
        **kw: Any,
    ) -> requests.Response:
        request.url, header = _elsewhere(request.url, base_url)
        request.headers.update(header)
        try:
            response = send(self, request, timeout=_bounded(timeout), **kw)
        except requests.RequestException as error:
            CURRENT.trouble = Trouble(type(error).__name__)
            raise
        _note_status(response.status_code, response.headers)
        return response

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
        try:
            return open_(self, request, data, _bounded(timeout))
        except OSError as error:
            CURRENT.trouble = Trouble(type(error).__name__)
            raise

    director.open = governed  # type: ignore[method-assign]


def _govern_urllib3(base_url: str | None) -> None:
    urlopen = urllib3.PoolManager.urlopen

    def governed(self: Any, method: str, url: str, redirect: bool = True, **kw: Any) -> Any:
        url, header = _elsewhere(url, base_url)
        kw["headers"] = {**(kw.get("headers") or self.headers), **header}
        kw["timeout"] = _bounded(kw.get("timeout"))
        kw["retries"] = urllib3.Retry(connect=0, read=0, redirect=3, other=0)  # one wait, one bound
        try:
            response = urlopen(self, method, url, redirect, **kw)
        except urllib3.exceptions.HTTPError as error:
            CURRENT.trouble = Trouble(type(error).__name__)
            raise
        _note_status(response.status, response.headers)
        return response

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
        kw["timeout"] = _bounded(kw.get("timeout"))
        if base_url:
            kw["allow_redirects"] = False  # curl would follow one to the real host
        try:
            response = request(self, method, url, *args, **kw)
        except OSError as error:
            CURRENT.trouble = Trouble(type(error).__name__)
            raise
        _note_status(response.status_code, response.headers)
        return response

    curl.Session.request = governed  # type: ignore[method-assign]


def _redirected(base_url: str) -> type[http.client.HTTPConnection]:
    class Redirected(http.client.HTTPConnection):
        def __init__(self, host: str, *_: Any, **__: Any) -> None:
            self._meant_for = host
            super().__init__(urlsplit(base_url).netloc, timeout=remaining_s())

        def endheaders(self, *args: Any, **kw: Any) -> None:
            self.putheader(ORIGINAL_HOST, self._meant_for)
            super().endheaders(*args, **kw)

    return Redirected
