"""The files of docs/deployment are valid, agree with each other, and do what they say."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from gateway import GatewaySettings
from gateway.cli.serve import serve
from tests.support.checkout import ROOT
from tests.support.fleets import (
    DEPLOYMENT,
    GATEWAYS,
    METRICS_KEY,
    command,
    needs,
    own_address,
    substituted,
)
from tests.support.schemas import schemas
from tests.support.servers import environment, server
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

KUBERNETES = DEPLOYMENT / "kubernetes"
INSTALLED = "/opt/finport/bin/finport"
KEYS = {"FINPORT_API_KEYS": "desk=fp_0451", "FINPORT_METRICS_KEY": METRICS_KEY}
HEAD = {"X-Api-Key": "fp_0451"}

Service = dict[str, Any]


def checked(*words: str, **environment: str) -> str:
    """What a program says about a file that it finds valid."""
    env = os.environ | environment
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def steps(*names: str) -> list[tuple[str, str]]:
    """The instructions of the Containerfile with these names, and what they say."""
    text = (DEPLOYMENT / "Containerfile").read_text()
    found = (line.partition(" ") for line in text.splitlines() if line and line[0] != "#")
    return [(name, said) for name, _, said in found if name in names]


def cmd() -> list[str]:
    ((_, said),) = steps("CMD")
    words: list[str] = json.loads(said)
    return words


def services() -> dict[str, Service]:
    read: dict[str, dict[str, Service]] = yaml.safe_load((DEPLOYMENT / "compose.yaml").read_text())
    return read["services"]


def unit() -> dict[str, str]:
    lines = (DEPLOYMENT / "finport.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


def options(words: Sequence[str]) -> dict[str, Any]:
    """What a command `finport serve` is told; fails for one that the CLI would refuse."""
    assert words[:2] == [*words[:1], "serve"]
    with serve.make_context("serve", [*words[2:]]) as context:
        return context.params


@needs("nginx")
def test_nginx_takes_its_file(tmp_path: Path) -> None:
    file = shutil.copy(DEPLOYMENT / "nginx.conf", tmp_path)
    assert "test is successful" in checked(*command("nginx", Path(file)), "-t")


@needs("haproxy")
def test_haproxy_takes_its_file() -> None:
    file = str(DEPLOYMENT / "haproxy.cfg")
    said = checked("haproxy", "-c", "-f", file, FINPORT_METRICS_KEY=METRICS_KEY)
    assert said.strip() == "Configuration file is valid", "and no warning"


def test_proxies_say_the_same_of_a_lost_call() -> None:
    nginx, haproxy = ((DEPLOYMENT / f).read_text() for f in ("nginx.conf", "haproxy.cfg"))
    for was_sent in (0, 1):
        (message,) = re.findall(rf"{was_sent} '([^{{']+)';", nginx)
        (error,) = re.findall(rf"{was_sent} '({{.+}})';", nginx)
        error = error.replace("$lost_message", message)
        assert haproxy.count(f'{{"ok":false,"error":{error}}}') == 1
        assert haproxy.count(f'"message":"{message}","data":{error}}}') == 1


@needs("systemd-analyze")
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    file = tmp_path / "finport.service"
    installed = str(Path(sys.executable).with_name("finport"))
    file.write_text(substituted(file.name, {INSTALLED: installed}))
    assert checked("systemd-analyze", "verify", str(file)) == ""
    check = ("security", "--offline=true", "--threshold=20")  # 2.0 of 10
    checked("systemd-analyze", *check, str(file), SYSTEMD_PAGER="cat")


def test_services_are_told_what_serve_takes_and_end_in_time() -> None:
    of_unit, of_image = options(unit()["ExecStart"].split()), options(cmd())
    assert of_unit.pop("workers") == 2
    assert of_image.pop("workers") == 1
    assert of_unit == of_image
    least_s = of_unit["drain_notice_s"] + GatewaySettings(upstream="simulated").drain_s + 12
    assert int(unit()["TimeoutStopSec"]) >= least_s
    for name in ("gateway1", "gateway2"):
        assert int(services()[name]["stop_grace_period"].removesuffix("s")) >= least_s


def test_the_parts_of_the_compose_file_fit() -> None:
    known = {f"FINPORT_{name.upper()}" for name in GatewaySettings.model_fields}
    found = services()
    for name, address in zip(("gateway1", "gateway2"), GATEWAYS, strict=True):
        gateway = found[name]
        assert gateway["environment"].keys() <= known
        assert f"{gateway['networks']['gateways']['ipv4_address']}:8000" == address
        build = gateway["build"]
        assert (DEPLOYMENT / build["context"]).samefile(ROOT)
        assert (ROOT / build["dockerfile"]).samefile(DEPLOYMENT / "Containerfile")
        assert "command" not in gateway, "it runs what the image says"
    nginx = found["nginx"]
    (mounted,) = nginx["volumes"]
    assert (DEPLOYMENT / mounted.partition(":")[0]).samefile(DEPLOYMENT / "nginx.conf")
    lines = (DEPLOYMENT / "sysctl.conf").read_text().splitlines()
    told = dict(line.split(" = ") for line in lines if line[0] != "#")
    assert {name: str(value) for name, value in nginx["sysctls"].items()} == told
    assert nginx["ports"] == ["127.0.0.1:8080:8080"]


@needs("redis-server")
def test_redis_takes_its_command(tmp_path: Path) -> None:
    own = ("--bind", own_address(), "--dir", str(tmp_path))
    command = services()["redis"]["command"]
    assert objects()["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["args"] == command
    words = [*command, *own]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        process.terminate()


def test_the_image_has_all_packages() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    copied = [said.split() for _, said in steps("COPY") if not said.startswith("--from")]
    sources = {source for *each, _ in copied for source in each}
    assert sources >= set(packages["targets"]["wheel"]["packages"])
    assert all((ROOT / source).exists() for source in sources)


def objects() -> dict[str, Any]:
    """The gateway's objects of Kubernetes by their kind, and the StatefulSet of Redis."""
    files = ("redis.yaml", "gateway.yaml")  # the later one's Service
    texts = ((KUBERNETES / name).read_text() for name in files)
    return {found["kind"]: found for text in texts for found in yaml.safe_load_all(text)}


def pod() -> dict[str, Any]:
    found: dict[str, Any] = objects()["Deployment"]["spec"]["template"]["spec"]
    return found


@needs("kubectl")
def test_kubernetes_knows_each_field() -> None:
    made = checked("kubectl", "kustomize", str(KUBERNETES))
    kinds = {found["kind"] for found in yaml.safe_load_all(made)}
    assert kinds == objects().keys() | {"ConfigMap"}
    program = """
import sys, yaml
from kubernetes_validate import validate

for found in yaml.safe_load_all(sys.stdin):
    for version in ("1.25", "1.37"):
        validate(found, version, strict=True)
"""
    schemas(program, made)


def test_pods_are_told_what_serve_takes_and_end_in_time() -> None:
    (container,) = pod()["containers"]
    assert "command" not in container, "it runs what the image says"
    notice_s = options(cmd())["drain_notice_s"]
    probe = container["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < notice_s
    settings = pod_settings()
    assert pod()["terminationGracePeriodSeconds"] >= notice_s + settings.drain_s + 12
    growing = 2 * settings.akshare_workers * settings.akshare_worker_bytes
    most = 2**30 * int(container["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert settings.memory_bytes + growing + 2**30 <= most
    sizes = {v["name"]: v["emptyDir"]["sizeLimit"] for v in pod()["volumes"] if "emptyDir" in v}
    assert settings.disk_bytes < 2**30 * int(sizes["cache"].removesuffix("Gi"))


def pod_settings() -> GatewaySettings:
    """The settings of a Pod, read as its gateway reads them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FINPORT_CONFIG", str(KUBERNETES / "finport.toml"))
        return GatewaySettings.read()


async def test_a_pod_is_found_ready(tmp_path: Path) -> None:
    text = (KUBERNETES / "finport.toml").read_text()
    text = text.replace("/var/cache/finport", str(tmp_path / "cache"))
    text = text.replace(
        "finport-redis:6379", f"{own_address()}:6379"
    )  # away, as at the first start
    (tmp_path / "finport.toml").write_text(text)
    config = {"FINPORT_CONFIG": str(tmp_path / "finport.toml")}
    (container,) = pod()["containers"]
    async with (
        server(tmp_path, "--host", own_address(), **KEYS, **config) as gateway,
        aiohttp.ClientSession() as client,
    ):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            url = f"{gateway.url}{container[probe]['httpGet']['path']}"
            async with client.get(url) as response:
                assert response.status == 200, await response.text()
        service = {"Host": objects()["Service"]["metadata"]["name"]} | HEAD
        url = f"{gateway.url}/v1/tools/get_coin"
        async with client.post(url, json={"uuid": "x"}, headers=service) as response:
            assert (await response.json())["ok"]


async def test_the_command_of_the_image_serves_and_is_found_healthy(tmp_path: Path) -> None:
    installed = Path(sys.executable).with_name("finport")
    await check_image(installed.parent, tmp_path)


async def check_image(programs: Path, folder: Path) -> None:
    """Run the image's command, and the compose file's check of its health."""
    host = own_address()
    words = [host if word == "0.0.0.0" else word for word in cmd()]
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        programs / words[0], *words[1:], env=environment(folder) | KEYS | path, stdout=-1
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession(headers=HEAD) as client:
            assert b"ready on" in await process.stdout.readline()
            url = f"http://{host}:8000/v1/tools/get_coin"
            async with client.post(url, json={"uuid": "x"}) as response:
                assert (await response.json())["ok"]
            _, python, *check = services()["gateway1"]["healthcheck"]["test"]
            check = [word.replace("localhost", host) for word in check]
            healthy = await asyncio.create_subprocess_exec(programs / python, *check)
            assert await healthy.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.soak
async def test_an_image_built_by_the_steps_of_the_containerfile_serves(tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "opt"
    places = {"/opt/finport": str(target), "python -m": f"{sys.executable} -m"}
    source.mkdir()
    for name, said in steps("FROM", "COPY", "RUN")[1:]:
        if name == "FROM":  # the second stage copies what the first one made
            break
        if name == "COPY":
            for one in said.split()[:-1]:
                copy = shutil.copytree if (ROOT / one).is_dir() else shutil.copy
                copy(ROOT / one, source / one)
            continue
        step = said
        for old, new in places.items():
            step = step.replace(old, new)
        done = await asyncio.create_subprocess_shell(step, cwd=source)
        assert await done.wait() == 0, step
    shutil.rmtree(source)
    await check_image(target / "bin", tmp_path)


def test_commands_of_the_document_name_files_that_exist() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    files = {path.name for path in DEPLOYMENT.iterdir()}
    assert files <= set(re.findall(r"\(deployment/([\w.-]+)\)", text)), "each has a link"
    shown = "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
    words = shlex.split(re.sub("^[#$>] ", "", shown, flags=re.MULTILINE))
    named = [word for word in words if "docs/deployment/" in word]
    assert len(named) == 2
    for word in named:
        assert (ROOT / word).exists()
