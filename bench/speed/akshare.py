"""Speed of AkShare calls over HTTP, beside AKTools in the same run.

Both let AkShare parse the same 250 bars of an upstream that takes 100 ms, once in clear and once
over TLS, and send all of them. Every call names a different stock, so no answer is cached or
shared. Both trust the authorities that requests trusts as installed, and one more that is made for
the run. AKTools is not one of our dependencies: `FINBENCH_AKTOOLS_PYTHON` names a Python that has
it. Only scheme and host of its requests are changed.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import orjson

from adapters.simulator.akshare import PAYLOADS
from adapters.simulator.shapes import Luck
from adapters.simulator.world.world import World
from bench import processes
from bench.environment import AKTOOLS_PYTHON
from bench.speed.bare_server import CERTIFICATE, Handler, answering
from bench.speed.baselines import SERVERS
from bench.speed.harness import Figures, Harness, NotMeasured, log
from bench.speed.load import measured, request

TOOL = "stock_zh_a_hist"
SOURCE = ("push2his.eastmoney.com", "/api/qt/stock/kline/get")
DAYS = {"start_date": "20230101", "end_date": "20231231"}
LAST_BAR = b"2023-12-29"
LATENCY_S = 0.1
CLIENTS = 256
SECONDS = 10.0


async def measure(harness: Harness) -> Figures:
    """Calls a second and ms of both, and the ratios finport / aktools."""
    if find_spec("akshare") is None:
        raise NotMeasured("AkShare is not installed")
    clients = harness.number(CLIENTS)
    figures: Figures = {"clients": clients}
    if AKTOOLS_PYTHON not in os.environ:
        figures["aktools"] = f"not measured: set {AKTOOLS_PYTHON}"
    trust: dict[str, str] = {}
    schemes: dict[str, dict[str, str]] = {"clear": {}}
    if shutil.which("openssl"):
        trust, schemes["tls"] = await asyncio.to_thread(_certificates, harness.folder)
    else:
        figures["tls"] = "not measured: there is no program openssl"
    for scheme, certificate in schemes.items():
        origin = await harness.serve(upstream, variables=certificate)
        finport = processes.gateway(
            harness.folder,
            variables=trust,
            akshare_base_url=origin,
            max_concurrency_per_host=clients,
        )
        sides = {"finport": finport}
        if python := os.environ.get(AKTOOLS_PYTHON):
            command = (python, "-P", SERVERS, "aktools", origin)
            sides["aktools"] = processes.server(harness.folder, *command, variables=trust)
        for name, opened in sides.items():  # one after the other
            log.info("%s, %s", name, scheme)
            async with opened as (url, _):
                call, seconds = partial(CALLS[name], url, count()), harness.seconds(SECONDS)
                found = await measured(url, call, seconds, clients, LAST_BAR)
            figures |= {f"{scheme}_{name}_{figure}": value for figure, value in found.items()}
        if len(sides) > 1:
            for figure, theirs in found.items():
                ratio = figures[f"{scheme}_finport_{figure}"] / theirs
                figures[f"{scheme}_{figure}_ratio"] = ratio
    return figures


def _call_finport(url: str, numbers: Iterator[int]) -> bytes:
    body = orjson.dumps({"symbol": f"6{next(numbers):05}", **DAYS})
    return request("POST", f"{url}/v1/tools/{TOOL}?max_rows=1000", body)


def _call_aktools(url: str, numbers: Iterator[int]) -> bytes:
    query = urlencode({"symbol": f"6{next(numbers):05}", **DAYS})
    return request("GET", f"{url}/api/public/{TOOL}?{query}")


CALLS = {"finport": _call_finport, "aktools": _call_aktools}


def _certificates(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Make a certificate for the upstream, and add it to the authorities that requests trusts.
    Returns the variables of those that trust it, and of the upstream.

    Most of the cost of a new session is reading the whole list of authorities, so a list of one
    would not be the same work.
    """
    import certifi

    folder.chmod(0o755)  # a worker that gives up root reads in it
    key, certificate = folder / "upstream.key", folder / "upstream.pem"
    new = (
        *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
    )
    subprocess.run(new, check=True, stderr=subprocess.PIPE)  # noqa: S603
    trusted = folder / "trusted.pem"
    trusted.write_bytes(Path(certifi.where()).read_bytes() + certificate.read_bytes())
    certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return dict.fromkeys(names, str(trusted)), {CERTIFICATE: str(certificate)}


async def upstream() -> Handler:
    """250 bars of a stock, as the upstream sends them."""
    query = {"secid": "1.600519", "beg": DAYS["start_date"], "end": DAYS["end_date"]}
    payload = PAYLOADS[SOURCE](query, Luck("", World()))
    return answering(payload.body, payload.content_type, LATENCY_S)
