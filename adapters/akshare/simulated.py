"""The AkShare adapter for the simulated upstream.

Functions whose upstream is simulated run as real AkShare code against it; all others are answered
from their manifest's columns. Both reach the simulated upstream over HTTP.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from yarl import URL

from adapters.adapter import Adapter
from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import fault_of_status
from adapters.http import Reply, Session, get, open_session
from adapters.normalise import Answer, from_json
from adapters.reader import Reader
from adapters.simulator import FUNCTIONS
from manifests import AkShareBinding, Manifest, Scalar


class SimulatedAkShare(Adapter):
    """Calls each AkShare tool in the way that the simulated upstream can answer it.

    Made by `SimulatedAkShare.open`.
    """

    def __init__(
        self, real: AkShareAdapter, session: Session, reader: Reader, base_url: str
    ) -> None:
        self._real = real
        self._session = session
        self._reader = reader
        self._base_url = base_url

    @classmethod
    @asynccontextmanager
    async def open(cls, real: AkShareAdapter, base_url: str) -> AsyncIterator["SimulatedAkShare"]:
        async with open_session() as session, Reader.open() as reader:
            yield cls(real, session, reader, base_url)

    def workers(self) -> dict[str, int]:
        return self._real.workers()

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",  # noqa: ARG002 - its tools have no sessions
    ) -> Answer:
        binding = manifest.binding
        if isinstance(binding, AkShareBinding) and binding.function in FUNCTIONS:
            return await self._real.fetch(manifest, arguments, timeout_s)
        url = URL(f"{self._base_url}/tables/{manifest.name}")
        query = {name: str(value) for name, value in arguments.items()}
        reply = await get(self._session, url.with_query(query), {}, timeout_s)
        answer = await self._reader.read(manifest.upstream, reply, _answer)
        return replace(answer, invented=True)


def _answer(reply: Reply) -> Answer:
    if not reply.ok:
        raise fault_of_status(reply.status, reply.headers.get("Retry-After"))
    return from_json(reply.body, reply.charset)
