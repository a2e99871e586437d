"""What `--engine ray` refuses, before any process of Ray starts."""

import socketserver
import sys
import threading
from pathlib import Path

import pytest

from tests.support.commands import finbench

RUN = ("run", "starter", "--engine", "ray", "--out", "out")


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = finbench(*RUN, "--upstream", "simulated")
    assert done.returncode == 1
    assert "needs the extra `ray`: pip install 'finport[ray]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "address", "why"),
    [
        (("--mode", "record", "--snapshot", "s.snap"), "", "--engine ray can't record"),
        ((), "127.0.0.1:6379", "can't share the quotas of live upstreams"),
        (("--upstream", "simulated"), "ray://127.0.0.1:1", "RAY_ADDRESS is the address of Ray Cl"),
        (("--upstream", "simulated"), "127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_what_can_not_be_right_on_ray_is_refused(
    options: tuple[str, ...], address: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    done = finbench(*RUN, *options)
    assert done.returncode == 1, done.stderr
    assert why in done.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("reply", "why"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "ConnectionError"), (b"", "Timeout")]
)
def test_what_listens_and_is_no_cluster_is_told_within_seconds(
    reply: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(reply)
            while self.request.recv(100):
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setattr("bench.engines.cluster.CONNECT_S", 1.0)
        done = finbench(*RUN, "--upstream", "simulated")
        server.shutdown()
    said = f"no Ray cluster answers at {address}, which RAY_ADDRESS names: {why}"
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
