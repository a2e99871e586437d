"""The AkShare adapter for the simulated upstream.

Functions whose upstream is simulated run as real AkShare code against it; all others are answered
from their manifest's columns. Both reach the simulated upstream over HTTP.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import orjson
from anyio import to_thread
from yarl import URL

from adapters.adapter import Adapter
from adapters.akshare.adapter import AkShareAdapter
from adapters.fault import fault_of_status
from adapters.http import Reply, Session, open_session, send
from adapters.normalise import Answer, from_json, from_value
from adapters.reader import Reader
from adapters.simulator import FUNCTIONS, Lies
from manifests import AkShareBinding, Manifest, Scalar


class SimulatedAkShare(Adapter):
    """Calls each AkShare tool in the way that the simulated upstream can answer it.

    Made by `SimulatedAkShare.open`.
    """

    def __init__(
        self,
        real: AkShareAdapter,
        session: Session,
        reader: Reader,
        base_url: str,
        lies: Lies | None = None,
    ) -> None:
        self._real = real
        self._session = session
        self._reader = reader
        self._base_url = base_url
        self._lies = lies or Lies()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, real: AkShareAdapter, base_url: str, lies: Lies | None = None
    ) -> AsyncIterator["SimulatedAkShare"]:
        """Open an adapter over `real`. `lies` are told in answers that are not invented."""
        async with open_session() as session, Reader.open() as reader:
            yield cls(real, session, reader, base_url, lies)

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
            answer = await self._real.fetch(manifest, arguments, timeout_s)
            if not self._lies.rate:
                return answer
            asked = (binding.function, sorted(arguments.items()))
            return await to_thread.run_sync(_told, answer, self._lies, manifest.upstream, *asked)
        url = URL(f"{self._base_url}/tables/{manifest.name}")
        query = {name: str(value) for name, value in arguments.items()}
        reply = await send(self._session, url.with_query(query), {}, timeout_s)
        answer = await self._reader.read(manifest.upstream, reply, _answer)
        return replace(answer, invented=True)


def _told(answer: Answer, lies: Lies, host: str, *asked: object) -> Answer:
    """The answer, with a lie in it if it is one that lies. A table with nested cells never does."""
    value = orjson.loads(answer.data)
    if (lie := lies.tell(value, host, *asked)) is None:
        return answer
    told = from_value(value)
    return answer if told.columns is None and answer.columns else replace(told, lied=lie)


def _answer(reply: Reply) -> Answer:
    if not reply.ok:
        raise fault_of_status(reply.status, reply.headers.get("Retry-After"))
    return from_json(reply.body, reply.charset)
