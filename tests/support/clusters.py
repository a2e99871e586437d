"""Ray clusters of a few nodes on this machine, and runs on them."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.commands import FINBENCH

STORE_BYTES = 80 * 2**20
_SOON = {"health_check_period_ms": 300, "health_check_failure_threshold": 5}
"""A node that is gone is missed soon."""


class Nodes:
    """A cluster whose nodes have one CPU each. Its files are in `folder`."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self._cluster = cluster
        self.folder = folder

    @property
    def address(self) -> str:
        address: str = self._cluster.address
        return address

    @property
    def dashboard(self) -> str:
        """The URL of the dashboard, where jobs are submitted."""
        return f"http://{self._cluster.head_node.webui_url}"

    @property
    def environment(self) -> dict[str, str]:
        """That of a client which reaches the cluster by its URL."""
        return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}

    def add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)

    def kill(self, node: Any) -> None:
        self._cluster.remove_node(node, allow_graceful=False)

    def players(self) -> dict[int, int]:
        """The processes of players, each with that of its node's raylet."""
        raylets = {raylet_of(node) for node in self._cluster.list_all_nodes()}
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                is_player = (entry / "cmdline").read_bytes().startswith(b"ray::Player")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if is_player and parent in raylets:
                found[int(entry.name)] = parent
        return found

    def begun(
        self, *arguments: str, command: Sequence[str] = FINBENCH, **environment: str
    ) -> "subprocess.Popen[str]":
        """`finbench` as a process that runs episodes on this cluster."""
        env = {
            **os.environ,
            "FINPORT_CACHE_DIR": "cache",
            "RAY_ADDRESS": self.address,
            **environment,
        }
        return subprocess.Popen(
            [*command, *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finbench(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """The same, to its end."""
        process = self.begun(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@contextmanager
def nodes(
    count: int, environment: Mapping[str, str], *, has_dashboard: bool = False
) -> Iterator[Nodes]:
    """A cluster of so many nodes, whose processes have the `environment` beside ours."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    folder = Path(tempfile.mkdtemp(prefix="r"))  # paths of sockets are short
    changes = pytest.MonkeyPatch()
    changes.setenv("RAY_USAGE_STATS_ENABLED", "0")
    changes.setenv("RAY_gcs_server_port_wait_time_s", "120")  # a busy machine starts it late
    (folder / "token").write_text(token_hex(32))
    changes.setenv("RAY_AUTH_MODE", "token")
    changes.setenv("RAY_AUTH_TOKEN_PATH", str(folder / "token"))
    for name, value in environment.items():
        changes.setenv(name, value)
    from ray._private.authentication_test_utils import reset_auth_token_state
    from ray.cluster_utils import Cluster

    reset_auth_token_state()  # this process may have read the token of an earlier cluster
    head: dict[str, Any] = {
        "num_cpus": 1,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": has_dashboard,
        "temp_dir": str(folder),
        "_system_config": _SOON,
    }
    if has_dashboard:
        with socket.create_server(("127.0.0.1", 0)) as free:
            head["dashboard_port"] = free.getsockname()[1]
    cluster = Cluster(initialize_head=False)
    try:
        cluster.add_node(**head)
        found = Nodes(cluster, folder)
        for _ in range(count - 1):
            found.add()
        yield found
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]
        changes.undo()
        reset_auth_token_state()
        shutil.rmtree(folder, ignore_errors=True)


def raylet_of(node: Any) -> int:
    """The process of a node that starts the others."""
    found: int = node.all_processes["raylet"][0].process.pid
    return found


def counted(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics but for times, with the digest."""
    for timed in ("latency_ms", "slowest", "most_failing"):
        del metrics["traffic"][timed]
    return metrics


def episodes(out: str) -> list[dict[str, Any]]:
    file = Path(out, "episodes.jsonl")
    if not file.exists():
        return []
    whole, _, _ = file.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
