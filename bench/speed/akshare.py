"""Speed of AkShare calls over HTTP, beside AKTools in the same run.

Both let AkShare parse the same 250 bars of an upstream that takes 100 ms, once in clear and once
over TLS, and send all of them. Every call names a different stock, so no answer is cached or
shared. Both trust the authorities that requests trusts as installed, and one more that is made for
the run. AKTools is not one of our dependencies: `FINBENCH_AKTOOLS_PYTHON` names a Python that has
it. Only scheme and host of its requests are changed.
"""

import asyncio
import os
import random
import shutil
import subprocess
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import orjson
from aiohttp import web

from adapters.simulator.akshare import PAYLOADS
from bench import processes
from bench.environment import AKTOOLS_PYTHON
from bench.speed.bare_server import CERTIFICATE, Handler
from bench.speed.baselines import SERVERS
from bench.speed.harness import Figures, Harness, NotMeasured, log, program
from bench.speed.load import measured, request
from gateway import GatewaySettings

TOOL = "stock_zh_a_hist"
SOURCE = ("push2his.eastmoney.com", "/api/qt/stock/kline/get")
DAYS = {"start_date": "20230101", "end_date": "20231231"}
LAST_BAR = b"2023-12-29"
LATENCY_S = 0.1
CLIENTS = 256
SECONDS = 10.0


async def measure(harness: Harness, seconds: float = SECONDS, clients: int = CLIENTS) -> Figures:
    """Calls a second and ms of both, and the ratios finport / aktools."""
    if find_spec("akshare") is None:
        raise NotMeasured("AkShare is not installed")
    defaults = GatewaySettings.model_fields
    figures: Figures = {
        "clients": clients,
        "upstream_ms": LATENCY_S * 1e3,
        "per_host": clients,
        "akshare_workers": defaults["akshare_workers"].default,
        "akshare_threads": defaults["akshare_threads"].default,
    }
    if AKTOOLS_PYTHON not in os.environ:
        figures["aktools"] = f"not measured: set {AKTOOLS_PYTHON}"
    served, trusted = {}, {}
    if shutil.which("openssl"):
        served, trusted = await asyncio.to_thread(_certificates, harness.folder)
    else:
        figures["tls"] = "not measured: there is no program openssl"
    for scheme, certificate in (("clear", {}), ("tls", served)) if served else (("clear", {}),):
        origin = await harness.server(*program(upstream), **certificate)
        figures |= await _beside(harness.folder, scheme, origin, trusted, seconds, clients)
    return figures


async def _beside(
    folder: Path, scheme: str, origin: str, trusted: dict[str, str], seconds: float, clients: int
) -> Figures:
    """The figures of both servers, run one after the other, with the upstream at `origin`."""
    settings = {"akshare_base_url": origin, "max_concurrency_per_host": clients}
    servers = {"finport": processes.gateway(folder, variables=trusted, **settings)}
    if python := os.environ.get(AKTOOLS_PYTHON):
        command = (python, "-P", SERVERS, "aktools", origin)
        servers["aktools"] = processes.server(folder, *command, **trusted)
    figures: Figures = {}
    for name, opened in servers.items():
        numbers = count()
        async with opened as server:

            def call(name: str = name, url: str = server.url) -> bytes:
                arguments = {"symbol": f"6{next(numbers):05}", **DAYS}  # noqa: B023
                if name == "aktools":
                    return request("GET", f"{url}/api/public/{TOOL}?{urlencode(arguments)}")
                address = f"{url}/v1/tools/{TOOL}?max_rows=1000"
                return request("POST", address, orjson.dumps(arguments))

            log.info("%s, %s, %g s", name, scheme, seconds)
            found = await measured(server.url, call, seconds, clients, LAST_BAR)
        figures |= {f"{scheme}_{name}_{figure}": value for figure, value in found.items()}
        if name == "aktools":
            for figure, theirs in found.items():
                ratio = figures[f"{scheme}_finport_{figure}"] / theirs
                figures[f"{scheme}_{figure}_ratio"] = ratio
    return figures


def _certificates(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Make a certificate for the upstream, and add its authority to those that requests trusts.
    Returns the variables of the upstream and of its clients.

    Most of the cost of a new session is reading the whole list of authorities, so a list of one
    would not be the same work.
    """
    import certifi

    folder.chmod(0o755)  # a worker that gives up root reads in it
    new = (
        *("openssl", "req", "-x509", "-nodes", "-days", "2"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    )
    authority = ("-subj", "/CN=finport-speed", "-keyout", "ca.key", "-out", "ca.pem")
    upstream = (
        *("-subj", "/CN=upstream", "-keyout", "upstream.key", "-out", "upstream.pem"),
        *("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
    )
    for wanted in (authority, upstream):
        subprocess.run([*new, *wanted], cwd=folder, check=True, stderr=subprocess.PIPE)  # noqa: S603
    with (folder / "upstream.pem").open("ab") as certificate:
        certificate.write((folder / "upstream.key").read_bytes())
    trusted = folder / "trusted.pem"
    trusted.write_bytes(Path(certifi.where()).read_bytes() + (folder / "ca.pem").read_bytes())
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return {CERTIFICATE: str(folder / "upstream.pem")}, dict.fromkeys(names, str(trusted))


def bars() -> tuple[bytes, str]:
    """250 bars of a stock, as the upstream sends them, and their content type."""
    query = {"secid": "1.600519", "beg": DAYS["start_date"], "end": DAYS["end_date"]}
    payload = PAYLOADS[SOURCE](query, random.Random(0))  # noqa: S311 - sample data
    return payload.body, payload.content_type


async def upstream() -> Handler:
    body, content_type = bars()

    async def handle(_: web.Request) -> web.Response:
        await asyncio.sleep(LATENCY_S)
        return web.Response(body=body, content_type=content_type)

    return handle
