"""The client of a model behind an OpenAI-compatible endpoint (Chat Completions).

It retries the same failures as the official SDK (openai 3.52), as often and after the same pauses,
with two differences: every wait has a deadline, and a stream that was cut off is retried, because
nothing of it has been used yet. It follows no redirect and keeps no cookie. The key is in a header
and nowhere else, even if the endpoint repeats it.
"""

import asyncio
import email.utils
import math
import random
import re
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from io import BytesIO
from types import MappingProxyType
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from anyio import to_thread
from yarl import URL

from adapters.connector import Connector
from adapters.fault import UpstreamFault, fit_for_message
from adapters.http import IDENTITY, read_body
from adapters.mask import mask_of
from bench.models.completion import (
    MAX_BYTES,
    TOO_LARGE,
    Completion,
    FunctionCall,
    ModelError,
    StreamedAnswer,
    TokenCounts,
    error_words,
    read_answer,
)
from bench.models.transcript import TRANSCRIPT
from bench.record import REASONING_CHARS, ModelCallRecord, storable

RETRIES = 2
FIRST_PAUSE_S, LONGEST_PAUSE_S, JITTER = 0.5, 8.0, 0.25
LONGEST_RETRY_AFTER_S = 120.0
"""An endpoint that asks for a longer pause is not asked again."""


def asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that headers ask to wait, whatever the number; None where they don't.

    `retry-after-ms` takes precedence over `retry-after`, which holds seconds or an HTTP date.
    """
    for name, in_a_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            asked = headers.get(name, "")
            seconds = float(asked) / in_a_second
            # A number too large for a float asks for a long pause, a literal infinity for none.
            is_literal = asked.strip().lstrip("+").lower().startswith("inf")
            return None if seconds == math.inf and is_literal else seconds
    moment = email.utils.parsedate_tz(headers.get("retry-after", ""))
    if moment is None:
        return None
    try:
        return email.utils.mktime_tz(moment) - time.time()
    except (ValueError, OverflowError):
        return None


def is_worth_another(status: int, headers: Mapping[str, str], asked_s: float | None) -> bool:
    """Whether a request that was answered with a failure is sent again."""
    if asked_s is not None and asked_s > LONGEST_RETRY_AFTER_S:
        return False
    said = headers.get("x-should-retry")  # not a standard header
    if said in ("true", "false"):
        return said == "true"
    return status in (408, 409, 429) or status >= 500


def pause_s(retry: int, asked_s: float | None) -> float:
    """Seconds before the retry with this number, counted from 0, if `asked_s` were asked for."""
    if asked_s is not None and 0 < asked_s <= LONGEST_RETRY_AFTER_S:
        return asked_s
    longest = min(FIRST_PAUSE_S * 2.0**retry, LONGEST_PAUSE_S)
    return longest * (1 - JITTER * random.random())  # noqa: S311 - no secret


__all__ = ["Completion", "FunctionCall", "ModelClient", "ModelError"]

CONNECTIONS = 512
"""The most requests under way at once; further ones wait in a fair queue."""

SECRET_CHARS = 6
"""A shorter value of a header is no secret, and masking it would mask words."""

CONNECT_S = 5.0
ATTEMPT_S = 300.0
COMPLETE_S = 600.0
"""Deadline of one answer, including its wait in the queue, its attempts and the pauses between."""

REFUSAL_BYTES, REFUSAL_S = 2**16, 2.0  # how much of a refusal is read, for how long
SETTLE_S = 0.25  # how long to wait for the end of a stream, so that its connection can be reused
STREAM_STEP = 2**14  # bytes of a stream between two yields to the loop: at worst 5 ms
READ_AT_ONCE = 2**18  # a longer body is parsed in a thread: it would hold the event loop for 1 ms
SEND_AT_ONCE = 2**20  # aiohttp expects longer bodies to be files

_KNOWN_FINISHES = frozenset({"stop", "tool_calls", "length", "content_filter"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_BROKEN_OFF = "the model's endpoint broke the connection off"

_Answer = tuple[Completion, TokenCounts]


class _TryAgain(Exception):
    """An attempt failed and another may succeed; `asked_s` is the pause that was asked for."""

    def __init__(self, text: str, asked_s: float | None = None) -> None:
        super().__init__(text)
        self.asked_s = asked_s


_VARYING = re.compile(r"\b(?=\w*\d)[\w-]{12,}|\b\d+(?:\.\d+)?\s?(?:m?s|seconds?|minutes?)\b")
"""What in an error differs from one to the next: ids of requests, and times."""

_BUSY = re.compile(r"answered (?:429|503|529)\b")

BUSY_S = 60.0
"""A model that is only busy is down if it has answered nothing for so long."""


class ErrorStreak:
    """The errors of one model since its last answer, of which `most` that are the same, but for
    numbers and ids of requests, mean that it is down. One that is only busy is down if it has
    answered nothing for `BUSY_S`.
    """

    def __init__(self, whose: str, url: str | None, most: int) -> None:
        self._model = f"the {whose}'s model{f' at {url}' if url else ''}"
        self._most = most
        self._same = 0
        self._error = ""
        self._answered_at = -math.inf

    def note(self, error: str | None) -> None:
        """Note how a request ended; None stands for an answer."""
        if error is None:
            self._same, self._error, self._answered_at = 0, "", time.monotonic()
            return
        is_same = _VARYING.sub("", error) == _VARYING.sub("", self._error)
        self._same = self._same + 1 if is_same else 1
        self._error = error

    @property
    def told(self) -> str | None:
        """That the model is down, with its last error; None if it is not."""
        if self._same < self._most:
            return None
        if _BUSY.search(self._error) and time.monotonic() - self._answered_at < BUSY_S:
            return None
        return f"{self._model} gave the same error {self._most} times in a row: {self._error}"


class ModelClient:
    """Asks one model. Made by `ModelClient.open`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        model: str,
        api_key: str,
        options: Mapping[str, Any],
        secrets: Collection[str],
        retries: int,
        attempt_s: float,
        key_variable: str | None,
        streak: ErrorStreak | None,
    ) -> None:
        self.model = model
        self._streak = streak
        self._session = session
        self._url = url
        self._secrets = (*((api_key,) if api_key else ()), *secrets)
        self._mask = mask_of(frozenset(self._secrets))
        self._missing = None if api_key else key_variable
        self._stream = "stream" in options
        self._head = b'{"model":%s,"messages":' % orjson.dumps(model)
        self._tail = b"," + orjson.dumps(options)[1:] if options else b"}"
        self._retries = retries
        self._attempt_s = attempt_s
        self._slots = asyncio.Semaphore(CONNECTIONS)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        base_url: str,
        model: str,
        api_key: str | None,
        *,
        body: Mapping[str, Any] = MappingProxyType({}),
        headers: Mapping[str, str] = MappingProxyType({}),
        stream: bool = False,
        retries: int = RETRIES,
        attempt_s: float = ATTEMPT_S,
        key_variable: str | None = None,
        streak: ErrorStreak | None = None,
    ) -> AsyncIterator["ModelClient"]:
        """A client of the endpoint at `base_url`, which ends before `/chat/completions`.

        Each request has the fields of `body` and the `headers`, whose values are secrets. A failed
        request is sent again at most `retries` times. `attempt_s` is the deadline of each attempt,
        from its connection to its last byte. The environment's proxy is used, but not for loopback.
        `key_variable` is the variable that the error names if the endpoint requires a key and none
        was sent. Each request is noted in `streak`.
        """
        options = dict(body)
        if stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        api_key = (api_key or "").strip()
        secrets = [value for value in headers.values() if len(value) >= SECRET_CHARS]
        headers = {
            **headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if stream else "application/json",
            "User-Agent": "finport",
            **IDENTITY,
        }
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        url = f"{base_url.rstrip('/')}/chat/completions"
        async with aiohttp.ClientSession(
            connector=Connector(),  # requests are limited here, fairly and within the deadline
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            auto_decompress=False,
            proxy=_proxy_of(url),
        ) as session:
            how = (retries, attempt_s, key_variable, streak)
            yield cls(session, url, model, api_key, options, secrets, *how)

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[bytes] = (),
        tool_choice: str | None = None,
        record: ModelCallRecord,
    ) -> Completion:
        """The model's next message. `tools` are function tools as JSON, encoded once and joined.
        `record` is filled in, also on failure. Raises `ModelError`.
        """
        started = time.perf_counter()
        record.at, record.attempts = round(time.time(), 3), 0
        completion, encoded = None, list[bytes]()
        try:
            encoded = _encoded(messages)
            body = self._body(encoded, tools, tool_choice)
            completion, usage = await self._persisted(body, record)
            _add(usage, record)
        except ModelError as error:
            _add(error.usage, record)
            record.error = fit_for_message(str(error), self._secrets, most=300)
            raise ModelError(record.error) from None
        except asyncio.CancelledError:
            record.error = "broken off: it was no longer waited for"
            raise
        finally:
            record.elapsed_ms = round((time.perf_counter() - started) * 1e3, 3)
            if (transcript := TRANSCRIPT.get()) is not None:
                transcript.secrets.update(self._secrets)
                transcript.add(record, encoded, tools, tool_choice, completion)
        if completion.finish not in _KNOWN_FINISHES and completion.finish is not None:
            finish = fit_for_message(completion.finish, self._secrets, most=40)
            completion = replace(completion, finish=finish)
        record.finish = completion.finish
        if completion.reasoning:
            reasoning = self._mask.text(completion.reasoning)
            record.reasoning = storable(reasoning[:REASONING_CHARS])
        if completion.model is not None:
            record.answered_by = fit_for_message(completion.model, self._secrets) or None
        return self._masked(completion)

    def _masked(self, completion: Completion) -> Completion:
        """The completion with the key masked, since what an agent gets goes into records."""
        text = self._mask.text
        calls = (
            replace(call, name=text(call.name), arguments=text(call.arguments))
            for call in completion.calls
        )
        refusal = completion.refusal and text(completion.refusal)
        return replace(
            completion, content=text(completion.content), calls=tuple(calls), refusal=refusal
        )

    def _body(
        self, messages: Sequence[bytes], tools: Sequence[bytes], tool_choice: str | None
    ) -> bytes:
        parts = [self._head, b"[", b",".join(messages), b"]"]
        if tools:
            parts += (b',"tools":[', b",".join(tools), b"]")
        if tool_choice is not None:
            parts += (b',"tool_choice":', orjson.dumps(tool_choice))
        return b"".join((*parts, self._tail))

    async def _persisted(self, body: bytes, record: ModelCallRecord) -> _Answer:
        """The same as `_persist`; how it ends counts in the streak, unless it is broken off."""
        try:
            answer = await self._persist(body, record)
        except ModelError as error:
            if self._streak is not None:
                self._streak.note(fit_for_message(str(error), self._secrets, most=300))
            raise
        if self._streak is not None:
            self._streak.note(None)
        return answer

    async def _persist(self, body: bytes, record: ModelCallRecord) -> _Answer:
        """The answer, after as many attempts as are allowed. Raises `ModelError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + COMPLETE_S
        while True:
            try:
                return await self._attempt(body, until, record)
            except _TryAgain as failed:
                wait_s = pause_s(record.attempts - 1, failed.asked_s)
                if record.attempts > self._retries or loop.time() + wait_s > until:
                    times = f"after {record.attempts} attempts: " if record.attempts > 1 else ""
                    raise ModelError(f"{times}{failed}") from None
            await asyncio.sleep(wait_s)

    async def _attempt(self, body: bytes, until: float, record: ModelCallRecord) -> _Answer:
        """The answer to one request. Raises `_TryAgain` and `ModelError`."""
        loop, has_slot = asyncio.get_running_loop(), False
        try:
            async with asyncio.timeout_at(until) as limit, self._slots:
                if (now := loop.time()) >= until:  # the place was freed by another's timeout
                    raise TimeoutError
                has_slot = True
                limit.reschedule(min(until, now + self._attempt_s))
                record.attempts += 1
                data = body if len(body) < SEND_AT_ONCE else BytesIO(body)
                async with self._session.post(
                    self._url, data=data, allow_redirects=False
                ) as response:
                    if not 200 <= response.status < 300:
                        raise await _refused(response, self._missing)
                    if self._stream and not response.content_type.endswith(("json", "html")):
                        return await _streamed(response, record)
                    whole = await read_body(response, MAX_BYTES)
            if len(whole) < READ_AT_ONCE:
                return read_answer(whole)
            return await to_thread.run_sync(read_answer, whole)
        except UpstreamFault as fault:
            if fault.kind == "too_large":
                raise ModelError(TOO_LARGE.format(MAX_BYTES)) from None
            if fault.retryable:
                raise _TryAgain(_BROKEN_OFF) from None
            raise ModelError(f"the model's endpoint: {fault}") from None
        except aiohttp.ConnectionTimeoutError:
            raise _TryAgain("no connection to the model's endpoint in time") from None
        except TimeoutError:
            if not has_slot:
                text = f"{CONNECTIONS} other requests to the model were under way for too long"
                raise ModelError(text) from None
            raise _TryAgain(f"the model did not answer within {self._attempt_s:g} s") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):
            raise ModelError("the model's base URL or key can't be used for a request") from None
        except aiohttp.ClientConnectorError:
            raise _TryAgain("no connection to the model's endpoint") from None
        except aiohttp.ClientResponseError:
            raise _TryAgain("the model's endpoint does not answer in HTTP") from None
        except (aiohttp.ClientError, OSError):
            raise _TryAgain(_BROKEN_OFF) from None


def _encoded(messages: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Raises `ModelError`."""
    try:
        return [orjson.dumps(message) for message in messages]
    except TypeError as error:
        raise ModelError(f"the messages for the model are not JSON: {error}") from None


def _add(usage: TokenCounts | None, record: ModelCallRecord) -> None:
    """Count the tokens of an attempt: those of one that failed cost money too."""
    if usage is not None:
        record.input_tokens += usage.input_tokens
        record.cached_tokens += usage.cached_tokens
        record.output_tokens += usage.output_tokens


async def _streamed(response: aiohttp.ClientResponse, record: ModelCallRecord) -> _Answer:
    if "Content-Encoding" in response.headers:
        raise ModelError("the model's endpoint compresses its stream, which was not asked for")
    answer, result = StreamedAnswer(), None
    try:
        async for chunk in response.content.iter_any():
            for at in range(0, len(chunk), STREAM_STEP):
                answer.feed(chunk[at : at + STREAM_STEP])
                if at:
                    await asyncio.sleep(0)
            if answer.is_done:
                with suppress(aiohttp.ClientError, OSError):  # TimeoutError is an OSError
                    async with asyncio.timeout(SETTLE_S):
                        await response.content.readany()
                break
        result = answer.result()
    finally:
        if result is None:
            _add(answer.usage, record)
    if result is None:
        raise _TryAgain("the model's endpoint broke its stream off")
    return result


async def _refused(response: aiohttp.ClientResponse, missing: str | None) -> Exception:
    """The exception for an unsuccessful status: `_TryAgain` or `ModelError`. `missing` names the
    variable of a key that was not sent.
    """
    status, headers = response.status, response.headers
    body: bytes | bytearray = b""
    with suppress(UpstreamFault, aiohttp.ClientError, OSError):  # the status is enough
        async with asyncio.timeout(REFUSAL_S):
            body = await read_body(response, REFUSAL_BYTES)
    words = "a redirect is not followed" if 300 <= status < 400 else error_words(body)
    hint = f" (no key was sent: set {missing})" if missing and status == 401 else ""
    text = f"the model's endpoint answered {status}{hint}{words and f': {words}'}"
    if status == 404:
        text += "; is the base URL what comes before /chat/completions, and the model's name right?"
    asked_s = asked_pause_s(headers)
    is_worth = is_worth_another(status, headers, asked_s)
    return _TryAgain(text, asked_s) if is_worth else ModelError(text)


def _proxy_of(url: str) -> str | None:
    """The environment's proxy for `url`, as the SDK finds it; none for loopback addresses."""
    try:
        target = URL(url)
    except ValueError:
        return None
    host = target.host or ""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    proxies: dict[str, str] = getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    return proxy if proxy and proxy.startswith(("http://", "https://")) else None
