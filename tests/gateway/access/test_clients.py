"""Who may come in: keys of the settings and of the file, and how changes are noticed."""

import asyncio
import json
import logging
from collections.abc import Callable
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.access import keys
from gateway.access.clients import Clients
from gateway.access.rejection import RequestRejected
from gateway.errors import ErrorCode
from gateway.grant import Grant
from gateway.settings import GatewaySettings, SettingsError
from manifests import Catalog
from manifests.selection import Selection
from tests.support.waiting import until

PLANTED = "planted-client-key-0815"
CHECK_S = 0.01


def settings(folder: Path, *keys: str, **more: Any) -> GatewaySettings:
    return GatewaySettings(
        clients_file=folder / "own" / "clients.json",
        api_keys=tuple(SecretStr(key) for key in keys),
        **more,
    )


def refusal(of: Callable[[], object]) -> tuple[ErrorCode, str, float | None]:
    with pytest.raises(RequestRejected) as denied:
        of()
    error = denied.value.error
    return error.code, error.message, error.retry_after_s


def put(file: Path, text: bytes) -> None:
    """Replace a file as a whole, as the gateway does."""
    part = file.with_name("part")
    part.write_bytes(text)
    part.replace(file)


def test_a_key_that_was_made_opens_and_one_that_was_revoked_does_not(
    tmp_path: Path, catalog: Catalog
) -> None:
    own = settings(tmp_path)
    key, entry = keys.add(
        own.clients_file, "bob", tools=Selection.parse("source:akshare"), at_once=3
    )
    assert key.startswith("fp_")
    assert sha256(key.encode()).hexdigest()[:8] == entry.id
    known = Clients(own)
    bob = known.authenticate(key)
    assert (bob.id, bob.name, bob.at_once, bob.per_second) == (entry.id, "bob", 3, None)
    usable = {m.source for m in catalog if bob.grant.allows(m)}
    assert usable == {"akshare"}
    unknown = refusal(lambda: known.authenticate(key[:-1]))
    keys.revoke(own.clients_file, "bob")
    shut = Clients(own)
    assert shut.required, "revoking the last key opens nothing"
    assert refusal(lambda: shut.authenticate(key)) == unknown
    assert unknown == (ErrorCode.UNAUTHORIZED, "this key is not known, or was revoked", None)
    for nothing in (None, ""):
        assert refusal(lambda given=nothing: shut.authenticate(given)) == (  # type: ignore[misc]
            ErrorCode.UNAUTHORIZED,
            "no key was given: send `Authorization: Bearer KEY` or `x-api-key: KEY`; a key comes "
            "from the gateway's operator, not from OAuth",
            None,
        )


def test_any_text_is_refused_or_opens_as_its_own_client(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    own = settings(folder, PLANTED, "carol=second-key")
    made, _ = keys.add(own.clients_file, "bob")
    holders = {PLANTED: f"key-{sha256(PLANTED.encode()).hexdigest()[:8]}"}
    holders |= {"second-key": "carol", made: "bob"}
    known = Clients(own)

    def near(key: str) -> st.SearchStrategy[str]:
        return st.builds(
            lambda at, put: key[:at] + put + key[at + 1 :],
            st.integers(0, len(key)),
            st.text(st.characters(), max_size=2),
        )

    @given(
        st.one_of(
            st.sampled_from(sorted(holders)),
            st.one_of([near(key) for key in sorted(holders)]),
            st.text(st.characters()),
            st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3),
        )
    )
    def check(presented: str) -> None:
        try:
            client = known.authenticate(presented)
        except RequestRejected:
            assert presented not in holders
        else:
            assert client.name == holders[presented]

    check()
    with pytest.raises(RequestRejected):
        known.authenticate("x" * 10_000_000)


def test_keys_of_the_settings_may_have_names(tmp_path: Path, catalog: Catalog) -> None:
    transactional = [m for m in catalog if m.intent_type == "transactional"]
    for upstream, allow in product(("live", "simulated"), (None, False, True)):
        own = settings(tmp_path, "a=k1", "k2", upstream=upstream, allow_transactional=allow)
        known = Clients(own)
        assert known.required
        unnamed = known.authenticate("k2")
        assert [client.name for client in known] == ["a", f"key-{unnamed.id}"]
        grant = known.authenticate("k1").grant
        assert grant == Grant(transactional=own.transactional)
        assert all(grant.allows(m) == own.transactional for m in transactional)
        assert sum(grant.allows(m) for m in catalog) >= len(catalog) - len(transactional)


@pytest.mark.parametrize("wrong", ["alice=", "=key", "ali ce=key", "0123abcd=key", "QUJDRA=="])
def test_a_key_of_the_settings_that_can_be_misread_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(SettingsError, match="entry 2 is neither KEY nor NAME=KEY") as error:
        Clients(settings(tmp_path, "k1", wrong))
    assert wrong not in str(error.value)


def test_the_file_has_the_last_word_on_a_key_that_the_settings_hold_too(tmp_path: Path) -> None:
    key, _ = keys.add(settings(tmp_path).clients_file, "bob")
    own = settings(tmp_path, key)
    assert Clients(own).authenticate(key).name == "bob"
    keys.revoke(own.clients_file, "bob")
    with pytest.raises(RequestRejected):
        Clients(own).authenticate(key)


@pytest.mark.anyio
async def test_a_running_gateway_notices_who_was_added_and_revoked(tmp_path: Path) -> None:
    own, tasks = settings(tmp_path), asyncio.all_tasks()
    async with Clients.open(own, check_s=CHECK_S) as known:
        assert not known.required
        first, _ = keys.add(own.clients_file, "bob", at_once=2)
        await until(lambda: len(list(known)) == 1)
        assert known.required
        bob = known.authenticate(first)
        bob.begin()
        second, _ = keys.add(own.clients_file, "carol")
        await until(lambda: len(list(known)) == 2)
        assert known.authenticate(first) is bob
        assert bob.in_flight == 1
        keys.revoke(own.clients_file, "bob")
        await until(lambda: len(list(known)) == 1)
        with pytest.raises(RequestRejected):
            known.authenticate(first)
        with pytest.raises(RequestRejected):
            bob.begin()
        bob.end()
        carol = known.authenticate(second)
        carol.begin()
        kept = json.loads(own.clients_file.read_bytes())
        kept["clients"][1] |= {"name": "caroline", "at_once": 1}
        put(own.clients_file, json.dumps(kept).encode())
        await until(lambda: carol.name == "caroline")
        assert known.authenticate(second) is carol
        with pytest.raises(RequestRejected):
            carol.begin()
    assert asyncio.all_tasks() == tasks


@pytest.mark.anyio
async def test_a_file_that_is_spoilt_while_it_is_served_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = settings(tmp_path)
    key, _ = keys.add(own.clients_file, "bob")
    good = own.clients_file.read_bytes()

    def warned() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]

    async with Clients.open(own, check_s=CHECK_S) as known:
        bob = known.authenticate(key)
        put(own.clients_file, b"{" + PLANTED.encode())
        await until(lambda: len(warned()) == 1)
        own.clients_file.unlink()
        await until(lambda: len(warned()) == 2)
        own.clients_file.mkdir()
        await until(lambda: len(warned()) == 3)
        await asyncio.sleep(10 * CHECK_S)
        kinds = ("Invalid JSON", "is gone", "can't be read: it is not a regular file")
        assert all(kind in text for kind, text in zip(kinds, warned(), strict=True))
        assert known.authenticate(key) is bob
        own.clients_file.rmdir()
        put(own.clients_file, b'{"clients": []}')
        await until(lambda: not list(known))
        assert known.required, "a missing file does not open what needed a key"
        put(own.clients_file, good)
        await until(lambda: bool(list(known)))
    assert PLANTED not in caplog.text


def test_no_key_stands_in_a_repr_an_error_or_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    own = settings(tmp_path, PLANTED)
    made, entry = keys.add(own.clients_file, "bob")
    known = Clients(own)
    seen = [repr(own), repr(known), repr(entry), str(entry), own.clients_file.read_text()]
    for key in (PLANTED, made):
        client = known.authenticate(key)
        seen += [repr(client), repr(vars(known)), repr(client.grant)]
        seen.append(refusal(lambda key=key: known.authenticate(key + "x"))[1])  # type: ignore[misc]
    text = "\n".join([*seen, caplog.text])
    assert PLANTED not in text
    assert made not in text
    assert made[3:] not in text
