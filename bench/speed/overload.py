"""The gateway's throughput when more calls arrive than it can make.

No call can be answered from a cache. The upstream process takes 50 ms and may be asked 32 times at
once, so the limits bind before the processor does, as an operator should set them. The peak is the
best throughput of clients that wait for their answers. Then calls arrive at two and five times that
rate, whether answered or not.
"""

from itertools import count

from bench.speed.bare_server import Handler, answering
from bench.speed.harness import Figures, Harness, log
from bench.speed.load import Clients, request

LATENCY_S = 0.05
PER_HOST, PENDING = 32, 64
CLIENTS = (32, 64)
CONNECTIONS = 1_000
SECONDS = 5.0
LOADS = (2, 5)


async def measure(harness: Harness) -> Figures:
    """Calls a second answered and refused at each load, and the 99th percentile of both in ms."""
    gateway = await harness.gateway(
        rapidapi_base_url=await harness.serve(upstream),
        rapidapi_keys="made-for-the-measurement",
        max_pending_calls=PENDING,
        max_concurrency_per_host=PER_HOST,
    )
    url, numbers, seconds = f"{gateway}/v1/tools/get_coin", count(), harness.seconds(SECONDS)

    def call() -> bytes:
        body = b'{"uuid":"x","referencecurrencyuuid":"%d"}' % next(numbers)
        return request("POST", url, body)

    peak = 0.0
    for connections in CLIENTS:
        log.info("%d clients that wait for their answers", connections)
        async with Clients.open(url, call, connections) as clients:
            await clients.closed_loop(seconds, warm_up_s=seconds / 5)
            peak = max(peak, clients.per_s())
    figures: Figures = {
        "per_host": PER_HOST,
        "pending": PENDING,
        "upstream_ms": LATENCY_S * 1e3,
        "peak_calls_per_s": peak,
    }
    for times in LOADS:
        log.info("%g times as many calls as at the peak", times)
        async with Clients.open(url, call, CONNECTIONS) as load:
            await load.open_loop(times * peak, seconds)
        others = load.took_s.keys() - {"200", "503"}
        seen = {
            "goodput_share": load.per_s() / peak,
            "offered_per_s": times * peak,
            "unsent_per_s": load.unsent / load.lasted_s,
            "answered_per_s": load.per_s(),
            "refused_per_s": load.per_s("503"),
            "others_per_s": sum(map(load.per_s, others)) + load.lost / load.lasted_s,
            "answered_p99_ms": load.quantile_ms(0.99),
            "refused_p99_ms": load.quantile_ms(0.99, "503"),
        }
        figures |= {f"at_{times}x_{name}": value for name, value in seen.items()}
    return figures


async def upstream() -> Handler:
    return answering(b'{"data":{"coin":{"price":"1.5","symbol":"SIM"}}}', after_s=LATENCY_S)
