"""`finport doctor`: what it finds, by real files and sockets of this machine, and how it ends."""

import asyncio
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from aiohttp import web
from click.testing import CliRunner

from adapters.provider import Finding
from adapters.rapidapi.keys import Key
from gateway.cli.doctor import AT_ONCE, Origin, _reached, doctor, row, trouble
from gateway.cli.options import print_table
from gateway.settings import mcp_provider
from manifests import Catalog, akshare_source
from tests.support.checkout import ROOT
from tests.support.gateways import PLANTED_KEY
from tests.support.mcp_servers import new_desk
from tests.support.redis import needs_redis, redis_server
from tests.support.upstreams import upstream as served_upstream
from tests.support.waiting import PATIENCE_S

Examine = Callable[..., tuple[dict[str, Finding], int]]


@pytest.fixture(scope="module")
def functions() -> dict[str, akshare_source.AkShareFunction]:
    return akshare_source.akshare_functions()


@pytest.fixture
def examine(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    functions: dict[str, akshare_source.AkShareFunction],
) -> Examine:
    """Runs the command with its caches in the test's folder, and settings from the environment."""
    monkeypatch.setattr(akshare_source, "akshare_functions", lambda: functions)

    def run(*options: str, **environment: str) -> tuple[dict[str, Finding], int]:
        done = CliRunner().invoke(
            doctor,
            ["--json", *options],
            env={
                "FINPORT_CACHE_DIR": str(tmp_path / "cache"),
                "FINPORT_CLIENTS_FILE": str(tmp_path / "clients.json"),
                "FINPORT_MAX_CONNECTIONS": "100",
                "FINPORT_UPSTREAM": "simulated",
                **environment,
            },
        )
        assert done.exit_code in (0, 1), done.output
        assert PLANTED_KEY not in done.output
        found = [Finding(**said) for said in orjson.loads(done.stdout_bytes)]
        return {finding.check: finding for finding in found}, done.exit_code

    return run


@pytest.fixture
def listening() -> Iterator[int]:
    """A port where connections are taken, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_where_all_is_well_it_says_so(examine: Examine) -> None:
    found, code = examine()
    assert {finding.status for finding in found.values()} == {"ok"}
    assert not any(finding.advice for finding in found.values())
    assert code == 0
    assert "nothing real is asked" in found["upstreams"].found
    assert found["versions"].found.startswith("finport 0")
    assert "Python 3." in found["versions"].found


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MAX_PENDING_CALLS", PLANTED_KEY, "pending"),
        (
            "HOSTS",
            '{"coinranking1.rapidapi.com": {"per_month": 5}}',
            "did you mean coinranking1.p.rapidapi.com?",
        ),
        (
            "RAPIDAPI_KEY",
            PLANTED_KEY,
            "FINPORT_RAPIDAPI_KEY is no setting; did you mean FINPORT_RAPIDAPI_KEYS?",
        ),
    ],
)
def test_settings_that_cannot_be_read_fail_and_show_no_value(
    examine: Examine, name: str, value: str, told: str
) -> None:
    found, code = examine(**{f"FINPORT_{name}": value})
    assert (found["settings"].status, code) == ("fail", 1)
    assert told in found["settings"].found
    assert found["AkShare"].status == "ok", "what needs no settings is checked all the same"


def test_keys_are_counted_and_shown_by_fingerprint(
    examine: Examine, closed: int, catalog: Catalog
) -> None:
    base = f"http://127.0.0.1:{closed}"
    live = {
        "FINPORT_UPSTREAM": "live",
        "FINPORT_RAPIDAPI_BASE_URL": base,
        "FINPORT_AKSHARE_BASE_URL": base,
    }
    found, _ = examine(FINPORT_RAPIDAPI_KEYS=f"{PLANTED_KEY},other", **live)
    assert found["RapidAPI keys"].status == "ok"
    assert found["RapidAPI keys"].found.startswith("2, by fingerprint")
    assert Key.of(PLANTED_KEY).id in found["RapidAPI keys"].found
    found, _ = examine(**live)
    assert found["RapidAPI keys"].status == "warn"
    assert f"{len(catalog.select(source='rapidapi'))} RapidAPI" in found["RapidAPI keys"].found
    found, _ = examine("--upstream", "simulated", **live)
    assert found["RapidAPI keys"].status == "ok"
    assert found["upstreams"].status == "ok"


def test_an_upstream_that_answers_and_one_that_does_not(
    examine: Examine, listening: int, closed: int
) -> None:
    found, code = examine(
        FINPORT_UPSTREAM="live",
        FINPORT_RAPIDAPI_BASE_URL=f"http://127.0.0.1:{listening}",
        FINPORT_AKSHARE_BASE_URL=f"http://127.0.0.1:{closed}",
    )
    assert found["RapidAPI hosts"].found == "1 of 1 RapidAPI hosts answered"
    assert found["AkShare hosts"] == Finding(
        "AkShare hosts",
        "fail",
        f"0 of 1 AkShare hosts answered; these did not: 127.0.0.1:{closed} (refused)",
        "tools of these hosts will fail until they answer: see the network, firewall and DNS",
    )
    assert code == 1


async def reached(origins: list[Origin], timeout_s: float = PATIENCE_S) -> Finding:
    return await _reached("RapidAPI", origins, timeout_s)


def test_some_that_do_not_answer_are_a_warning_and_are_named(listening: int, closed: int) -> None:
    origins = [Origin("127.0.0.1", listening, False)] * 3
    origins += [Origin("127.0.0.1", closed, False), Origin("127.0.0.1", listening, True)]
    origins += [Origin("no..name")]
    found = asyncio.run(reached(origins, 1.5))
    assert found.status == "warn"
    assert found.found == (
        "3 of 6 RapidAPI hosts answered; these did not: "
        f"127.0.0.1:{closed} (refused); 127.0.0.1:{listening} (no answer within 1.5 s); "
        "no..name (the name has no address)"
    )


def test_no_more_than_so_many_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: list[str] = []
    peak, all_at_once = 0, threading.Barrier(AT_ONCE)

    def connect(host: str, *_: object) -> None:
        nonlocal peak
        under_way.append(host)
        peak = max(peak, len(under_way))
        all_at_once.wait(PATIENCE_S)
        under_way.pop()

    monkeypatch.setattr("gateway.cli.doctor._connect", connect)
    found = asyncio.run(reached([Origin(f"h{n}") for n in range(3 * AT_ONCE)]))
    assert found.found == f"{3 * AT_ONCE} of {3 * AT_ONCE} RapidAPI hosts answered"
    assert peak == AT_ONCE


def test_a_host_that_may_speak_either_is_tried_without_tls(
    listening: int, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.doctor.PLAIN_PORT", listening)
    assert asyncio.run(trouble(Origin("127.0.0.1", closed, None), PATIENCE_S)) is None
    assert asyncio.run(trouble(Origin("127.0.0.1", closed, True), PATIENCE_S)) == "refused"
    monkeypatch.setattr("gateway.cli.doctor.PLAIN_PORT", closed)
    assert asyncio.run(trouble(Origin("127.0.0.1", closed, None), PATIENCE_S)) == "refused"


def test_a_name_whose_look_up_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(PATIENCE_S) and [])
    try:
        reason = asyncio.run(trouble(Origin("hanging.invalid"), 0.1))
        assert reason == "no answer within 0.1 s"
    finally:
        released.set()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout"
    subprocess.run(
        [*make.split(), str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def shake_hands(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(ssl.SSLError):
            context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = threading.Thread(target=shake_hands, args=(server,), daemon=True)
        peer.start()
        reason = asyncio.run(trouble(Origin("127.0.0.1", server.getsockname()[1]), PATIENCE_S))
        peer.join(PATIENCE_S)
    assert reason == "certificate: self-signed certificate"


def test_the_clients_file(examine: Examine, tmp_path: Path) -> None:
    found, _ = examine(FINPORT_API_KEYS=PLANTED_KEY)
    assert found["client keys"].status == "ok"
    assert found["client keys"].found.startswith("1 of 1 are valid")
    path = tmp_path / "clients.json"
    path.write_text('{"clients": []}')
    for mode, status in ((0o600, "ok"), (0o644, "warn"), (0o666, "fail")):
        path.chmod(mode)
        found, code = examine()
        assert found["client keys"].status == status
        assert code == (status == "fail")
    path.write_text(f'{{"clients": "{PLANTED_KEY}"')
    found, code = examine()
    assert (found["client keys"].status, code) == ("fail", 1)


def test_the_cache_folder(
    examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = examine()
    assert "not yet made" in found["cache folder"].found
    assert not (tmp_path / "cache").exists(), "a doctor changes nothing"
    (tmp_path / "cache").write_text("no folder")
    found, code = examine()
    assert (found["cache folder"].status, code) == ("fail", 1)
    assert "FINPORT_CACHE_DIR" in found["cache folder"].advice
    found, code = examine(FINPORT_CACHE_DIR=str(tmp_path / "cache" / "below"))
    assert (found["cache folder"].status, code) == ("fail", 1)
    (tmp_path / "cache").unlink()
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**29))
    found, code = examine()
    assert (found["cache folder"].status, code) == ("warn", 0)
    assert "0.5 GiB free" in found["cache folder"].found


def test_a_ledger_that_is_none(examine: Examine, tmp_path: Path) -> None:
    ledger = tmp_path / "cache" / "simulated-0-20260630-2" / "quota.sqlite"
    ledger.parent.mkdir(parents=True)
    ledger.write_bytes(b"no database" * 100)
    found, code = examine()
    assert (found["quota ledger"].status, code) == ("fail", 1)
    assert str(ledger) in found["quota ledger"].found


def test_where_a_snapshot_alone_answers_no_upstream_is_asked(examine: Examine) -> None:
    offline = {"FINPORT_UPSTREAM": "live", "FINPORT_MODE": "offline", "FINPORT_SNAPSHOT": "missing"}
    assert "the snapshot alone answers" in examine(**offline)[0]["upstreams"].found


def test_too_few_open_files(examine: Examine) -> None:
    found, code = examine(FINPORT_MAX_CONNECTIONS="1000000000")
    assert (found["open files"].status, code) == ("warn", 0)


def test_functions_that_akshare_lacks_or_takes_otherwise(
    examine: Examine,
    functions: dict[str, akshare_source.AkShareFunction],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = {**functions}
    del changed["stock_zh_a_hist"]
    other = functions["stock_zh_a_spot_em"]
    changed["fund_name_em"] = akshare_source.AkShareFunction("fund_name_em", other.module, {}, {})
    changed["bond_zh_us_rate"] = akshare_source.AkShareFunction("bond_zh_us_rate", "x", {}, {})
    monkeypatch.setattr(akshare_source, "akshare_functions", lambda: changed)
    found, code = examine()
    assert (found["AkShare"].status, code) == ("warn", 0)
    assert "vanished: stock_zh_a_hist" in found["AkShare"].found
    assert "lost_parameter: bond_zh_us_rate" in found["AkShare"].found


def test_without_akshare_its_tools_are_counted(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, catalog: Catalog
) -> None:
    def missing() -> str:
        raise akshare_source.AkShareMissingError

    monkeypatch.setattr(akshare_source, "akshare_version", missing)
    found, code = examine()
    assert (found["AkShare"].status, code) == ("warn", 0)
    assert f"the {len(catalog.select(source='akshare'))} AkShare tools" in found["AkShare"].found
    assert found["AkShare"].advice == "pip install 'finport[akshare]'"


def test_the_table_names_every_check(examine: Examine, tmp_path: Path) -> None:
    found, _ = examine()
    done = CliRunner().invoke(
        doctor,
        ["--upstream", "simulated"],
        env={"FINPORT_CACHE_DIR": str(tmp_path), "FINPORT_RAPIDAPI_KEYS": PLANTED_KEY},
    )
    assert done.exit_code == 0
    assert PLANTED_KEY not in done.output
    for check in found:
        assert check in done.output


def test_a_long_table_says_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([row(Finding("x", "warn", "host.example, " * 500))])
    text = capsys.readouterr().out
    assert "(--json shows all)" in " ".join(text.split())
    assert len(text) < 5_000


@needs_redis
@pytest.mark.anyio
async def test_redis_is_looked_at_and_its_password_is_not_shown(
    examine: Examine, tmp_path: Path
) -> None:
    async with redis_server(tmp_path) as redis:
        url = redis.url.replace("redis://", "redis://default:s3cret@")
        await redis.tell("CONFIG", "SET", "requirepass", "s3cret")

        async def found() -> tuple[Finding, int]:
            findings, code = await asyncio.to_thread(examine, FINPORT_REDIS_URL=url)
            assert "s3cret" not in str(findings)
            return findings["Redis"], code

        finding, _ = await found()
        assert finding.status == "ok"
        assert f"127.0.0.1:{redis.port}" in finding.found
        await redis.tell("-a", "s3cret", "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert (await found())[0].status == "warn"
        await redis.tell("-a", "s3cret", "REPLICAOF", "127.0.0.1", "1")
        finding, code = await found()
        assert (finding.status, code) == ("fail", 1)
        assert "read-only" in finding.found
        await redis.kill()
        finding, code = await found()
        assert (finding.status, code) == ("fail", 1)
        assert "away" in finding.found


@pytest.mark.anyio
async def test_subscriptions_are_told_for_each_key_and_host(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        host, key = (request.headers[f"X-RapidAPI-{name}"] for name in ("Host", "Key"))
        asked.append((key, host))
        if key.endswith("2") and host.startswith("coinranking1"):
            text = {"message": "You are not subscribed to this API."}
            return web.json_response(text, status=403)
        return web.json_response({"data": {"price": 1}})

    async with served_upstream(answer) as url:
        env = {
            "FINPORT_RAPIDAPI_KEYS": "planted-1,planted-2",
            "FINPORT_RAPIDAPI_BASE_URL": url,
            "FINPORT_CACHE_DIR": str(tmp_path / "cache"),
        }
        told = partial(CliRunner().invoke, doctor, ["--subscriptions", "--json"], env=env)
        done = await asyncio.to_thread(told)
    assert done.exit_code == 1, done.output
    rows = orjson.loads(done.stdout_bytes)
    assert len(rows) == 2 * 42
    assert len(asked) == len(set(asked)), "no host is asked twice"
    unknown = {row["host"] for row in rows if row["subscribed"] == "unknown"}
    assert len(asked) == 2 * (42 - len(unknown))
    (lacking,) = [row for row in rows if row["subscribed"] == "no"]
    assert (lacking["key"], lacking["host"]) == (2, "coinranking1.p.rapidapi.com")
    assert lacking["subscribe at"] == "https://rapidapi.com/Coinranking/api/coinranking1"
    assert "planted" not in done.output


def test_a_cache_that_others_may_write(examine: Examine, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for mode, status in ((0o777, "warn"), (0o770, "warn"), (0o755, "ok")):
        cache.chmod(mode)
        seen = examine()[0]["cache folder"]
        assert seen.status == status
        assert ("others may write in it" in seen.found) == (status == "warn")
        assert seen.advice.endswith(f"chmod 700 {cache}" if status == "warn" else "")


@pytest.mark.usefixtures("patient_with_servers")
def test_an_mcp_server_that_is_not_reached(examine: Examine, tmp_path: Path) -> None:
    script, secret = tmp_path / "desk.py", "unguessable-4711"
    shutil.copy(ROOT / "tests/support/mcp_upstream.py", script)
    command = shlex.join([sys.executable, "-P", str(script), str(new_desk(tmp_path)), "stdio"])
    given = {"FINPORT_MCP": f"{command} {secret}", "FINPORT_CATALOG": "none"}
    found, _ = examine(**given)
    seen = found["provider desk"]
    assert seen.status == "ok", seen
    assert seen.found.endswith(f" tools of {script}")
    script.write_text("raise SystemExit(3)")
    found, code = examine(**given)
    lost = found["provider desk"]
    assert (lost.status, code) == ("warn", 0)
    assert lost.found.startswith(f"{seen.found}, as it listed before; its server is not reached: ")
    assert secret not in f"{seen} {lost}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("python desk.py --key x", "desk.py"),
        ("/opt/python3.11 -P /srv/desk.py x", "/srv/desk.py"),
        ("uv run --with mcp desk.py", "desk.py"),
        ("python -m desk.server x", "desk.server"),
        ("npx -y @desk/server --key x", "@desk/server"),
        ("python -c x", "python ***"),
        ("npx --token x @desk/server", "npx ***"),
        ("env KEY=x desk-server", "env ***"),
        ("desk-server x", "desk-server ***"),
        ("desk-server", "desk-server"),
    ],
)
def test_a_command_is_told_by_what_it_runs_without_its_arguments(command: str, told: str) -> None:
    assert mcp_provider(command)[1].origin == told
