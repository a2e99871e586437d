"""`finport` as a user runs it: its output, its exit code, and where it matters its process."""

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from manifests import Catalog
from manifests.catalog import DATA
from tests.support.commands import FINBENCH, FINPORT, finport, finport_process, post, served
from tests.support.waiting import PATIENCE_S, block_until


def test_the_commands_are_cheap_to_import() -> None:
    code = "import gateway.cli.main, sys; print({'pydantic', 'aiohttp', 'rich'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_validate_counts_what_is_there(catalog: Catalog) -> None:
    done = finport("manifests", "validate")
    assert done.returncode == 0
    rapidapi, akshare = (catalog.select(source=name) for name in ("rapidapi", "akshare"))
    hosts, lost = len({m.upstream for m in rapidapi}), [m.name for m in catalog if m.unavailable]
    said = f"{len(catalog)} tools valid: {len(rapidapi)} RapidAPI on {hosts} hosts, {len(akshare)} "
    assert said in done.stdout
    assert f"{len(lost)} unavailable:" in done.stdout
    report = json.loads(finport("manifests", "validate", "--json").stdout)
    assert (report["tools"], report["rapidapi_hosts"]) == (len(catalog), hosts)
    assert [*report["unavailable"]] == lost


def test_validate_names_the_file_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('[{"name": "x"}]')
    done = finport("manifests", "validate", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "Error: mine.json: 0.description: Field required\n"


def test_format_writes_manifest_files_in_the_form_that_the_projects_have(tmp_path: Path) -> None:
    ours = DATA / "rapidapi" / "currencyapi-net.json"
    mine, bad = tmp_path / "mine.json", tmp_path / "z.json"
    mine.write_text("\ufeff" + json.dumps(json.loads(ours.read_text())[::-1], indent=8))
    done = finport("manifests", "format", str(tmp_path))
    told = f"{mine}: written in the standard form\n1 files are in the standard form\n"
    assert (done.returncode, done.stdout) == (0, told)
    assert mine.read_bytes() == ours.read_bytes()
    assert finport("manifests", "format", str(mine)).stdout == "1 files are in the standard form\n"
    bad.write_text("[{}]")
    refused = finport("manifests", "format", str(tmp_path))
    assert (refused.returncode, bad.read_text()) == (1, "[{}]")
    assert refused.stderr == "Error: z.json: 0.name: Field required\n"


def test_format_follows_a_link_only_where_the_user_named_it(tmp_path: Path) -> None:
    ours = (DATA / "rapidapi" / "currencyapi-net.json").read_text()
    other = json.dumps(json.loads(ours), indent=8)
    (tmp_path / "mine").write_text(other)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.json").symlink_to("../mine")
    refused = finport("manifests", "format", "folder")
    told = "folder/link.json: it is a symbolic link, which is not followed here"
    assert (refused.returncode, told in refused.stderr) == (1, True), refused.stderr
    assert (tmp_path / "mine").read_text() == other
    assert finport("manifests", "format", "folder/link.json").returncode == 0
    assert (tmp_path / "mine").read_text() == ours
    assert (tmp_path / "folder" / "link.json").is_symlink()
    os.mkfifo(tmp_path / "folder" / "pipe.json")
    pipe = finport("manifests", "format", "folder")
    assert (pipe.returncode, pipe.stderr) == (1, "Error: pipe.json: it is not a regular file\n")


def test_manifests_are_written_over_a_file_on_demand_only(tmp_path: Path) -> None:
    export = ("manifests", "export", "--format", "fintoolbench", "--tools", "get_coin")
    assert finport(*export, "--out", "folder/tools.jsonl").returncode == 0
    os.mkfifo(tmp_path / "pipe")
    into = ("manifests", "import", "fintoolbench", "--out", "mine.json")
    assert finport(*into, "folder/tools.jsonl").returncode == 0
    for command, out in (
        ((*export, "--out", "folder/tools.jsonl"), "folder/tools.jsonl"),
        ((*into, "folder/tools.jsonl"), "mine.json"),
    ):
        again = finport(*command)
        told = f"{out}: it exists already; --force replaces it" in again.stderr
        assert (again.returncode, told) == (1, True), again.stderr
        assert finport(*command, "--force").returncode == 0
    pipe = finport(*into, "pipe", "--force")
    assert (pipe.returncode, "pipe: it is not a regular file" in pipe.stderr) == (1, True)
    assert finport(*export, "--out", "").returncode == 2


def test_tools_lists_and_shows() -> None:
    listed = finport("tools", "treasury", "--limit", "2")
    assert "bond_zh_us_rate" in listed.stdout
    shown = finport("tools", "show", "get_coin")
    assert "python  await gateway.call" in shown.stdout
    assert "curl -s localhost:8000/v1/tools/get_coin" in shown.stdout
    wrong = finport("tools", "show", "get_coins")
    assert wrong.returncode == 1
    assert "did you mean get_coin" in wrong.stderr
    far = finport("tools", "show", "zzz")
    assert far.stderr == "Error: no tool is named 'zzz'\n"
    assert finport("tools", "--domain", "stocks").returncode == 2


def test_call_prints_the_envelope_and_its_exit_code_says_whether_it_worked(tmp_path: Path) -> None:
    arguments = ("call", "get_coin", "uuid=x", "--upstream", "simulated")
    done = finport_process(*arguments, cache=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["provenance"]["source"] == "simulated"
    assert (
        json.loads(finport(*arguments, cache=tmp_path).stdout)["provenance"]["source"] == "cached"
    )
    failed = finport("call", "get_coin", "--args", '{"uuid": 1}', cache=tmp_path)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error"]["code"] == "not_configured"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("call", "get_coin", "uuid"), "'uuid' is not of the form NAME=VALUE"),
        (("call", "get_coin", "--args", "{"), "--args is not JSON"),
        (("call", "get_coin", "--args", "[]"), "--args must be a JSON object"),
        (("call", "get_coin", "--upstream", "fake"), "'fake' is not one of"),
        (("serve", "--host", "0.0.0.0"), "0.0.0.0 is not a loopback address"),
        (("serve", "--host", "0.0.0.0"), "`finport keys add NAME` or set FINPORT_API_KEYS"),
        (("serve", "--drain-notice", "-1"), "drain_notice_s: Input should be greater than or"),
        (("serve", "--workers", "2", "--mode", "record", "--snapshot", "s"), "one process records"),
        (("serve", "--simulated-hang-rate", "2"), "setting simulated_hang_rate"),
        (("nonsense",), "No such command"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(
    arguments: tuple[str, ...], complaint: str
) -> None:
    done = finport(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named_without_its_value(tmp_path: Path) -> None:
    done = finport("call", "get_coin", cache=tmp_path, FINPORT_CREDENTIALS="planted-secret")
    assert done.returncode == 2
    assert "credentials" in done.stderr
    assert "planted-secret" not in done.stderr


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    Path("finport.toml").write_text('upstream = "simulated"\n')
    done = finport("call", "get_coin", "uuid=x", cache=tmp_path)
    assert json.loads(done.stdout)["provenance"]["source"] == "simulated"
    Path("finport.toml").write_text("upstream = ")
    assert finport("call", "get_coin").returncode == 2


def test_serve_answers_traces_and_stops_when_told(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with served(tmp_path / "cache", "--trace", str(trace)) as (process, url):
        tool = f"{url}/v1/tools/stock_zh_a_hist"
        sources = [post(tool, b'{"symbol": "600519"}')["provenance"] for _ in range(2)]
        assert [s["source"] for s in sources] == ["simulated", "cached"]  # type: ignore[index]
        workers = _children(process.pid)
        assert workers
        process.terminate()
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, stderr) == (0, "")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert [json.loads(line)["source"] for line in trace.read_text().splitlines()] == [
        "simulated",
        "cached",
    ]


def test_a_killed_gateway_leaves_no_worker_behind(tmp_path: Path) -> None:
    with served(tmp_path) as (process, url):
        post(f"{url}/v1/tools/stock_zh_a_hist", b'{"symbol":"600519"}')
        workers = _children(process.pid)
        assert workers
        process.kill()
        process.wait()
    block_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = finport_process("serve", "--port", port, "--upstream", "simulated", cache=tmp_path)
    assert done.returncode == 1
    assert port in done.stderr
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def _children(parent: int) -> list[int]:
    path = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(child) for child in path.read_text().split()]


LACKS = {
    "threads": (
        """
        import threading

        def refused(*_):
            raise RuntimeError("can't start new thread")

        threading._start_new_thread = refused
        """,
        "no more threads or processes can be started: raise the limit on them (ulimit -u, ",
    ),
    "memory": (
        """
        import sys

        class Refusing:
            def find_spec(self, name, *_):
                if name == "gateway.pipeline.answers":
                    raise MemoryError

        sys.meta_path.insert(0, Refusing())
        """,
        "no memory is left: raise the limit on it (ulimit -v, ",
    ),
    "processes": (
        """
        import subprocess

        def refused(*_):
            raise BlockingIOError(11, "Resource temporarily unavailable")

        subprocess._fork_exec = refused
        """,
        "no more threads or processes can be started: raise the limit on them (ulimit -u, ",
    ),
}
SIMULATED = ("--upstream", "simulated")


@pytest.mark.parametrize(
    ("command", "lack"),
    [
        ((*FINPORT, "call", "get_coin", "uuid=x", *SIMULATED), "threads"),
        ((*FINPORT, "call", "get_coin", "uuid=x", *SIMULATED), "memory"),
        ((*FINPORT, "serve", "--port", "0", "--workers", "2", *SIMULATED), "threads"),
        ((*FINPORT, "serve", "--port", "0", "--workers", "2", *SIMULATED), "processes"),
        ((*FINBENCH, "run", "starter", "--episodes", "1", *SIMULATED), "memory"),
    ],
)
def test_a_command_says_what_the_system_has_no_more_of(
    tmp_path: Path, command: tuple[str, ...], lack: str
) -> None:
    script, said = LACKS[lack]
    (tmp_path / "sitecustomize.py").write_text(dedent(script))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "FINPORT_CACHE_DIR": str(tmp_path / "cache")}
    run = partial(subprocess.run, cwd=tmp_path, env=env, capture_output=True, text=True)
    done = run(command, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.partition(": ")[2].startswith(said), done.stderr
    assert done.stderr.count("\n") == 1
