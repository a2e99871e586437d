"""The head of a request: what it calls the gateway, from where, and with which key."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr

from gateway.access.clients import Clients
from gateway.access.guard import Guard, is_same_site
from gateway.access.rejection import RequestRejected
from gateway.errors import ErrorCode
from gateway.settings import GatewaySettings, SettingsError

PORTS = {"http": 80, "https": 443}
ALLOWED = ("gw.example", "Other.Example.", "third.example:8765")
OWN = ("localhost", "gw.example", "other.example", "third.example")

HOST = ("Host", "localhost")

PLACE = Path("/nonexistent/clients.json")

labels = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=8)
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
addresses = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
)
ports = st.none() | st.integers(0, 65_535)


def guard(**settings: Any) -> Guard:
    chosen = GatewaySettings(clients_file=PLACE, **{"allowed_hosts": ALLOWED, **settings})
    return Guard(chosen, Clients(chosen))


GUARD = guard()


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def admits(guard: Guard, host: str, *origins: str) -> bool:
    try:
        guard.caller(headers(("Host", host), *(("Origin", origin) for origin in origins)))
    except RequestRejected as refusal:
        return refusal.error.code is not ErrorCode.FORBIDDEN
    return True


def at(name: str, port: int | None) -> str:
    return name if port is None else f"{name}:{port}"


@given(
    name=st.sampled_from(OWN) | addresses,
    port=ports,
    spelt=st.sampled_from([str.lower, str.upper, str.title]),
    dot=st.sampled_from(["", "."]),
)
def test_own_names_are_known_in_every_spelling(
    name: str, port: int | None, spelt: Callable[[str], str], dot: str
) -> None:
    assert admits(GUARD, at(spelt(name) + ("" if name.startswith("[") else dot), port))


@given(name=names, port=ports)
def test_other_names_are_refused(name: str, port: int | None) -> None:
    assume(name not in OWN and not name[-1].isdigit())  # a last digit makes an address
    assert not admits(GUARD, at(name, port))
    assert not admits(GUARD, at(f"localhost.{name}", port))


@given(
    st.text()
    | st.text("localhost127.:[]@/\\#?%_- \t", max_size=20)
    | st.tuples(st.text(":[]@/#?.%\\ ", max_size=3), st.text(":[]@/#?.%\\ ", max_size=3)).map(
        "localhost".join
    )
)
@example("localhost\n")
@example("127.0.0.1\n.evil")
@example("\u212aey.example")
def test_what_is_admitted_means_the_same_to_another_parser(host: str) -> None:
    if admits(guard(allowed_hosts=("key.example",)), host):
        parts = urlsplit(f"http://{host}")
        assert (parts.netloc, parts.username, parts.path) == (host, None, "")
        assert parts.hostname is not None
        name = parts.hostname.removesuffix(".")
        assert name in ("localhost", "key.example") or set(name) <= set("0123456789abcdef.:")


@given(
    scheme=st.sampled_from(["http", "https"]),
    page=st.tuples(st.sampled_from(OWN) | addresses, ports),
    called=st.tuples(st.sampled_from(OWN) | addresses, ports),
    same_name=st.booleans(),
    same_port=st.booleans(),
)
def test_a_page_is_of_the_site_where_name_and_port_are(
    scheme: str,
    page: tuple[str, int | None],
    called: tuple[str, int | None],
    same_name: bool,
    same_port: bool,
) -> None:
    called = (page[0] if same_name else called[0], page[1] if same_port else called[1])
    usual = PORTS[scheme]
    same = page[0] == called[0] and (
        (usual if page[1] is None else page[1]) == (usual if called[1] is None else called[1])
    )
    assert is_same_site(f"{scheme}://{at(*page)}", at(*called)) == same
    assert admits(GUARD, at(*called), f"{scheme}://{at(*page)}") == same


@given(
    st.text()
    | st.tuples(
        st.sampled_from(["http://", "https://", "ftp://", "HTTP://", "//", ""]),
        st.text(":@/#?.%\\ ", max_size=3),
        st.sampled_from(["localhost", "evil"]),
        st.text(":@/#?.%\\ 0789", max_size=5),
    ).map("".join)
)
@example("null")
@example("http://localhost:8765, http://evil")
def test_an_origin_that_is_admitted_means_the_same_to_another_parser(origin: str) -> None:
    if admits(GUARD, "localhost:8765", origin):
        parts = urlsplit(origin)
        assert f"{parts.scheme}://{parts.netloc}" == origin
        assert parts.username is None
        assert (parts.hostname or "").removesuffix(".") == "localhost"
        assert parts.port == 8765


@pytest.mark.parametrize(
    ("allowed", "admitted", "refused"),
    [
        ("https://app.example", "https://app.example", "http://app.example"),
        ("HTTPS://App.Example:443/", "https://app.example", "https://app.example:444"),
        ("http://app.example:3000", "http://app.example:3000", "http://app.example"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef", "https://abcdef"),
    ],
)
def test_pages_of_allowed_origins_may_call(allowed: str, admitted: str, refused: str) -> None:
    own = guard(allowed_origins=(allowed,))
    assert admits(own, "localhost", admitted)
    assert own.is_allowed_page(headers(("Origin", admitted)))
    assert not admits(own, "localhost", refused)
    assert not admits(own, "localhost", admitted, admitted)
    assert not admits(own, "evil.example", admitted)
    for other in ((), (("Origin", refused),), (("Origin", ""),), (("Origin", admitted),) * 2):
        assert not own.is_allowed_page(headers(*other))


def test_any_name_may_be_allowed() -> None:
    own = guard(allowed_hosts=("*",))
    assert admits(own, "whatever.example")
    assert admits(own, "whatever.example", "https://whatever.example")
    assert not admits(own, "whatever.example", "https://evil.example")


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"allowed_hosts": (host,)}
            for host in ("http://gw.example", "gw.example/", "m\xfcnchen")
        ),
        *({"allowed_origins": (origin,)} for origin in ("*", "null", "app.example", "https://a/b")),
    ],
)
def test_settings_that_would_never_match_are_refused(wrong: dict[str, tuple[str, ...]]) -> None:
    (name,) = wrong
    with pytest.raises(SettingsError, match=f"setting {name}: "):
        guard(**wrong)


NO_KEY = (
    "no key was given: send `Authorization: Bearer KEY` or `x-api-key: KEY`; a key comes from the "
    "gateway's operator, not from OAuth"
)
TWO_KEYS = (
    "two different keys were given: send one, as `Authorization: Bearer KEY` or `x-api-key: KEY`"
)
UNKNOWN_KEY = "this key is not known, or was revoked"
OTHER_FORM = (
    "Authorization is given in a form that is not known: "
    "send `Authorization: Bearer KEY` or `x-api-key: KEY`"
)


@pytest.mark.parametrize(
    ("given_", "ended"),
    [
        ([("Authorization", "Bearer k1")], "a"),
        ([("Authorization", "bearer  k1 ")], "a"),
        ([("Authorization", "Bearer k2")], "b"),
        ([("Authorization", "Bearer k1")] * 2, "a"),
        ([("Authorization", "Bearer k1"), ("Authorization", "Bearer k2")], TWO_KEYS),
        ([("Authorization", "Bearer")], NO_KEY),
        ([("Authorization", "Bearer k1 k1")], UNKNOWN_KEY),
        ([("Authorization", "Bearer k\udcff")], UNKNOWN_KEY),
        ([], NO_KEY),
        ([("X-Api-Key", "k1")], "a"),
        ([("x-api-key", " k2 ")], "b"),
        ([("X-Api-Key", "k1"), ("Authorization", "Bearer k1")], "a"),
        ([("X-Api-Key", "k1"), ("Authorization", "Basic YTpi")], "a"),
        ([("X-Api-Key", ""), ("Authorization", "Bearer k1")], "a"),
        ([("X-Api-Key", "k1"), ("Authorization", "Bearer k2")], TWO_KEYS),
        ([("X-Api-Key", "k1"), ("Authorization", "Bearer nobody")], TWO_KEYS),
        ([("X-Api-Key", "k1"), ("X-Api-Key", "k2")], TWO_KEYS),
        ([("X-Api-Key", "nobody")], UNKNOWN_KEY),
        ([("X-Api-Key", "Bearer k1")], UNKNOWN_KEY),
        ([("X-Api-Key", "")], NO_KEY),
        ([("Authorization", "Basic YTpi")], OTHER_FORM),
        ([("Authorization", "k1")], OTHER_FORM),
        ([("Api-Key", "k1")], NO_KEY),
    ],
)
def test_a_caller_is_known_by_one_key(given_: list[tuple[str, str]], ended: str) -> None:
    own = guard(api_keys=(SecretStr("a=k1"), SecretStr("b=k2")))
    assert own.needs_keys
    if " " in ended:
        with pytest.raises(RequestRejected) as refusal:
            own.caller(headers(HOST, *given_))
        error = refusal.value.error
        assert (error.code, error.message) == (ErrorCode.UNAUTHORIZED, ended)
    else:
        caller = own.caller(headers(HOST, *given_))
        client, context = caller.client, caller.context
        assert client is not None
        assert client.name == ended
        assert (context.client, context.grant) == (client.id, client.grant)


def test_without_keys_callers_tell_themselves_apart() -> None:
    assert GUARD.caller(headers(HOST)).context.client == ""
    own = ("X-Finport-Client", "n" * 99), ("Authorization", "Bearer x")
    named = GUARD.caller(headers(HOST, *own))
    assert (named.client, named.context.client) == (None, "n" * 64)
