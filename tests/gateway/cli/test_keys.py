"""`finport keys` as a user runs it."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.access.clients import Clients
from gateway.access.rejection import RequestRejected
from gateway.cli.keys import keys
from gateway.settings import GatewaySettings

PLANTED = "planted-client-key-0815"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "clients.json"
    monkeypatch.setenv("FINPORT_CLIENTS_FILE", str(path))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(keys, arguments)


def test_a_key_is_printed_once_and_opens(file: Path) -> None:
    done = run("add", "bob")
    assert done.exit_code == 0
    key = done.stdout.strip()
    assert "shown only this once" in done.stderr
    assert f"{file} holds its hash" in done.stderr
    assert key not in done.stderr
    assert Clients(GatewaySettings.read()).authenticate(key).name == "bob"
    digest = sha256(key.encode()).hexdigest()
    for listed in (run("list"), run("list", "--json")):
        assert "bob" in listed.stdout
        assert key not in listed.output
        assert digest not in listed.output
    assert key not in file.read_text()


def test_limits_and_tools_are_kept() -> None:
    selection = "domain:bond;source:akshare"
    limits = ("--per-second", "2.5", "--at-once", "4")
    made = json.loads(run("add", "bob", "--tools", selection, *limits, "--json").stdout)
    (row,) = json.loads(run("list", "--json").stdout)
    assert row == {name: value for name, value in made.items() if name != "key"}
    kept = ("tools", "transactional", "per_second", "at_once", "revoked_at", "from")
    assert [row[name] for name in kept] == [selection, False, 2.5, 4, None, "file"]
    assert row["created_at"].endswith("Z")
    client = Clients(GatewaySettings.read()).authenticate(made["key"])
    assert (client.per_second, client.at_once, str(client.grant.tools)) == (2.5, 4, selection)


def test_transactional_tools_are_granted_by_themselves() -> None:
    refused = run("add", "bob", "--tools", "intent:transactional")
    assert refused.exit_code == 2
    assert "grants no tool: each needs --transactional" in refused.stderr
    made = json.loads(
        run("add", "bob", "--tools", "intent:transactional", "--transactional", "--json").stdout
    )
    assert Clients(GatewaySettings.read()).authenticate(made["key"]).grant.transactional


def test_a_revoked_key_is_refused_and_stays_listed() -> None:
    key = run("add", "bob").stdout.strip()
    done = run("revoke", "bob")
    assert done.exit_code == 0
    assert done.stdout.startswith("revoked the key of bob (id ")
    assert "notices within a second" in done.stdout
    with pytest.raises(RequestRejected):
        Clients(GatewaySettings.read()).authenticate(key)
    (row,) = json.loads(run("list", "--json").stdout)
    assert row["revoked_at"] is not None
    again = run("revoke", "bob")
    assert again.exit_code == 1
    assert "no key in" in again.stderr


def test_a_key_given_in_place_of_a_name_is_not_repeated() -> None:
    key = run("add", "bob").stdout.strip()
    assert run("revoke", key).exit_code == 1
    assert key not in run("revoke", key).output


def test_keys_of_the_environment_are_listed_and_removed_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FINPORT_API_KEYS", f"carol={PLANTED}, another-{PLANTED}")
    run("add", "bob")
    listed = run("list", "--json")
    carol, other, bob = json.loads(listed.stdout)
    assert (carol["name"], other["name"], bob["name"]) == ("carol", f"key-{other['id']}", "bob")
    assert [row["from"] for row in (carol, other, bob)] == ["environment", "environment", "file"]
    assert PLANTED not in listed.output + run("list").output
    taken = run("add", "carol")
    assert (taken.exit_code, taken.stdout) == (1, "")
    for name in ("carol", other["id"]):
        done = run("revoke", name)
        assert done.exit_code == 1
        assert "stands in FINPORT_API_KEYS; remove it there" in done.stderr


def test_a_listing_without_keys_says_what_that_means() -> None:
    assert "no key is known: the gateway serves loopback only" in run("list").stdout
    assert json.loads(run("list", "--json").stdout) == []


def test_no_name_is_cut_in_a_listing() -> None:
    long, tools = "n" * 64, "names:get_coin,stock_zh_a_hist,bond_zh_us_rate"
    made = run("add", long, "--tools", tools, "--per-second", "0.25", "--json")
    row = json.loads(made.stdout)
    run("revoke", long)
    (kept,) = json.loads(run("list", "--json").stdout)
    words = run("list").stdout.split()
    for shown in (long, row["id"], "0.25", "False", "from", "file"):
        assert shown in words
    times = [kept["created_at"], kept["revoked_at"]]
    assert sum(word in times for word in words) == 2
    assert "".join(words).count("bond_zh_us_rate") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("add", "a b"), "a name has 1 to 64"),
        (("add", "0123abcd"), "is not 8 hex digits"),
        (("add", "n" * 65), "a name has 1 to 64"),
        (("add", "bob", "--tools", "stocks"), "tools are selected by"),
        (("add", "bob", "--tools", "names:get_cion"), "'get_cion'; did you mean get_coin"),
        (("add", "bob", "--tools", "source:akshare;names:get_coin"), "no tool is all of that"),
        (("add", "bob", "--per-second", "0"), "per-second"),
        (("add", "bob", "--at-once", "0"), "at-once"),
        (("add",), "Missing argument"),
    ],
)
def test_wrong_usage_exits_2_and_makes_nothing(
    file: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert not file.exists()


def test_what_can_t_be_done_exits_1_with_a_line(file: Path) -> None:
    run("add", "bob")
    assert "has a key already" in run("add", "bob").stderr
    assert "finite number" in run("add", "carol", "--per-second", "nan").stderr
    file.write_text("{")
    for arguments in (("list",), ("add", "dave"), ("revoke", "bob")):
        done = run(*arguments)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: clients file {file}: Invalid JSON")
