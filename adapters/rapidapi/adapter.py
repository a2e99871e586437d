"""Calls RapidAPI endpoints over HTTP.

A request is built only from the manifest's binding: host, path with percent-encoded values, query
names, and the key and host headers. Before a key is taken, the request is checked: it must go to
the binding's host, which must be in the catalogue, and its path must match the template. Redirects
are not followed, and a body is read up to a bound. The key is sent only in a header. If an upstream
repeats it or another secret, even in an answer, it is masked.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from urllib.parse import quote

from yarl import URL

from adapters.adapter import Adapter, credential_arguments
from adapters.conventions import UpstreamErrorBody, error_body_in, words_in
from adapters.fault import (
    LONGEST_RESET_S,
    UpstreamFault,
    fault_of_status,
    fit_for_message,
    limits_of,
    seconds_until,
)
from adapters.host import LIED
from adapters.http import Reply, Session, open_session, send
from adapters.mask import mask_of
from adapters.normalise import Answer, from_value, masked, read_json
from adapters.rapidapi.keys import Key, Keys
from adapters.reader import Reader
from manifests import Manifest, RapidApiBinding, Scalar

MAX_URL = 8_000
"""The longest URL that is sent; RFC 9110, section 4.1, asks everyone to support this length."""

_DOT_SEGMENT = re.compile(r"/(\.|%2e){1,2}(/|$)", re.IGNORECASE)
_BAD_KEY = re.compile(r"(invalid|missing) api.?key|api.?key .{0,20}invalid", re.IGNORECASE)
_NOT_SUBSCRIBED = re.compile("not subscribed", re.IGNORECASE)
_LIE = re.compile("[a-z_]{1,32}")
_QUOTA = re.compile(r"\b(monthly|daily|hourly) quota\b", re.IGNORECASE)


class RapidApiAdapter(Adapter):
    """Calls RapidAPI endpoints. Made by `RapidApiAdapter.open`."""

    def __init__(
        self,
        session: Session,
        reader: Reader,
        keys: Keys,
        hosts: Collection[str],
        base_url: str | None,
        credentials: Mapping[str, str],
        secrets: Collection[str],
    ) -> None:
        self._session = session
        self._reader = reader
        self._keys = keys
        self._hosts = frozenset(hosts)
        self._base_url = base_url
        self._credentials = credentials
        self._secrets = frozenset((*secrets, *credentials.values()))
        self._secrets_by_key: dict[str, list[str]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        keys: Keys,
        hosts: Collection[str],
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
    ) -> AsyncIterator["RapidApiAdapter"]:
        """Open an adapter that calls only `hosts`; `base_url` sends all requests to another origin.

        `secrets` are masked in answers, as are the credentials and the key of the request.
        """
        async with open_session() as session, Reader.open() as reader:
            yield cls(session, reader, keys, hosts, base_url, credentials or {}, secrets)

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",  # noqa: ARG002 - its tools have no sessions
    ) -> Answer:
        binding = manifest.binding
        if not isinstance(binding, RapidApiBinding):
            raise TypeError(f"{manifest.name} is no RapidAPI tool")
        host, loop = binding.host, asyncio.get_running_loop()
        until = loop.time() + timeout_s
        filled = credential_arguments(manifest, self._credentials)
        url, headers = request_of(binding, {**arguments, **filled}, self._base_url)
        if host not in self._hosts:
            raise UpstreamFault("invalid", f"{host} is no host of the catalogue")
        key = await self._keys.take(host, timeout_s)
        headers |= {"X-RapidAPI-Key": key.secret, "X-RapidAPI-Host": host}

        def learn(status: int, said: Mapping[str, str]) -> None:
            self._keys.learn(host, key, status, said)

        secrets = self._secrets_with(key)
        fresh = manifest.intent_type == "transactional"  # their requests are never repeated
        left_s = until - loop.time()
        reply = await send(self._session, url, headers, left_s, learn, fresh=fresh)
        outcome = await self._reader.read(host, reply, _outcome, host, secrets, until=until)
        if isinstance(outcome, Answer):
            if self._base_url and _LIE.fullmatch(lied := reply.headers.get(LIED, "")):
                return replace(outcome, lied=lied)
            return outcome
        words = fit_for_message(outcome.text, secrets)
        raise self._fault(host, key, reply, outcome.status, words)

    def _secrets_with(self, key: Key) -> list[str]:
        secrets = self._secrets_by_key.get(key.id)
        if secrets is None:
            secrets = self._secrets_by_key[key.id] = sorted(self._secrets | {key.secret})
        return secrets

    def _fault(
        self, host: str, key: Key, reply: Reply, status: int | None, words: str
    ) -> UpstreamFault:
        """Return the fault for `status`, which is the reply's own or was found in its body."""
        said = words and f": {words}"
        if _NOT_SUBSCRIBED.search(words) and (reply.ok or status == 403):
            again = self._keys.refuse(host, key)
            text = f"the key is not subscribed to {host}{said}"
            return UpstreamFault("not_subscribed", text, retryable=again)
        if status == 429:
            return self._slow_down(host, key, reply, words)
        if reply.ok and (status or 0) < 500:
            return UpstreamFault("rejected", f"the upstream refused the call{said}")
        if reply.ok:
            text = f"the upstream answered {reply.status} with an error{said}"
            return UpstreamFault("status", text, retryable=True)
        if status == 401 or (status == 403 and _BAD_KEY.search(words)):
            again = self._keys.refuse(host, key)
            text = f"the upstream does not accept the key{said}"
            return UpstreamFault("not_configured", text, retryable=again)
        return fault_of_status(reply.status, reply.headers.get("Retry-After"), words)

    def _slow_down(self, host: str, key: Key, reply: Reply, words: str) -> UpstreamFault:
        """Return the fault for status 429: headers or text say whether a quota is used up."""
        limits = limits_of(reply.headers)
        used_up = [one for one in limits if one.remaining is not None and one.remaining <= 0]
        retry_after = reply.headers.get("Retry-After")
        if not used_up and not _QUOTA.search(words):
            fault = fault_of_status(429, retry_after, words)
            fault.other_key = self._keys.rest(host, key, fault.retry_after_s or 0.0)
            return fault
        resets = [one.reset_s for one in used_up or limits if one.reset_s is not None]
        wait_s = max(resets) if resets else seconds_until(retry_after)
        if wait_s is not None and wait_s > LONGEST_RESET_S:
            wait_s = None
        if not used_up:  # only the body says so: report it to the keys as headers
            reset = {} if wait_s is None else {"x-ratelimit-requests-reset": f"{math.ceil(wait_s)}"}
            self._keys.learn(host, key, 429, {"x-ratelimit-requests-remaining": "0", **reset})
        text = f"the key's quota at {host} is used up{words and f': {words}'}"
        return UpstreamFault("quota_exhausted", text, retryable=True, retry_after_s=wait_s)


def request_of(
    binding: RapidApiBinding, arguments: Mapping[str, Scalar], base_url: str | None = None
) -> tuple[URL, dict[str, str]]:
    """Return the URL and the argument headers of one call, exactly as the binding defines them.

    An argument can't affect other parts: in the path it is percent-encoded and stays one segment,
    in the query yarl encodes it, in headers control characters are refused. Raises `UpstreamFault`
    (`invalid`).
    """
    texts = {name: _text(value) for name, value in arguments.items()}
    path = binding.path
    for name, text in texts.items():
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(text, safe=""))
    base, prefix = _base(base_url or f"https://{binding.host}")
    url = URL(f"{base}{path}", encoded=True)
    query = [(sent, texts[name]) for name, sent in binding.query.items() if name in texts]
    headers = {sent: texts[name] for name, sent in binding.headers.items() if name in texts}
    if not all(text.isprintable() for text in headers.values()):
        raise UpstreamFault("invalid", "an argument that is sent as a header is not printable")
    url = url.with_query(query) if query else url
    _check(url, prefix, binding.path)
    return url, headers


@lru_cache(1024)
def _base(origin: str) -> tuple[str, str]:
    """Return the common prefix of all URLs of an origin, and that of their paths.

    Raises `UpstreamFault` (`invalid`) for an origin that holds a credential.
    """
    url = URL(origin)
    if url.user or url.password:
        raise UpstreamFault("invalid", "a credential stands in the address of the upstream")
    return str(url).rstrip("/"), url.raw_path.rstrip("/")


def _check(url: URL, prefix: str, template: str) -> None:
    """Raises `UpstreamFault` (`invalid`) for a URL that does not match its binding."""
    path = url.raw_path
    if url.raw_fragment or not _shape(prefix, template).fullmatch(path):
        raise UpstreamFault("invalid", "an argument does not fit into the path of the request")
    if _DOT_SEGMENT.search(path):
        raise UpstreamFault("invalid", "an argument is a dot segment of the path")
    if len(str(url)) > MAX_URL:
        text = f"the arguments make a URL of more than {MAX_URL} characters"
        raise UpstreamFault("invalid", text)


@lru_cache(4096)
def _shape(prefix: str, template: str) -> re.Pattern[str]:
    """Return the pattern of a path: the template with one segment for each placeholder."""
    segment = r"(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+"
    return re.compile(re.escape(prefix) + re.sub(r"\\{\w+\\}", segment, re.escape(template)))


def _outcome(reply: Reply, host: str, secrets: Sequence[str]) -> Answer | UpstreamErrorBody:
    """Read a reply. Raises `UpstreamFault` if the body of a success can't be read."""
    if not reply.ok:
        try:
            words = words_in(read_json(reply.body, reply.charset))
        except UpstreamFault:
            words = ""
        return UpstreamErrorBody(words, reply.status)
    value = read_json(reply.body, reply.charset, secrets)
    return error_body_in(host, value) or masked(from_value(value), mask_of(frozenset(secrets)))


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
