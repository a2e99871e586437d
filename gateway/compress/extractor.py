"""Shortens an answer by a model that copies what the question needs, where the settings name one.

The model may fail, or may say what does not stand in the answer. Then the answer is shortened by
rules, as without a model.
"""

import logging
import re
from typing import TYPE_CHECKING

from adapters.fault import UpstreamFault
from gateway.compress.budget import Budget
from gateway.compress.cut import Compressed
from gateway.search.endpoint_limits import EndpointLimits, NotAskedError
from gateway.settings import GatewaySettings, SettingsError

if TYPE_CHECKING:
    from adapters.openai import EndpointExtractor

log = logging.getLogger("finport")

READ = Budget(8_000)
"""How much of an answer the model is given: what the rules choose of a longer one."""

WAIT_S = 20.0
"""Seconds that the model has."""

AT_ONCE = 16
"""Requests to the model that are under way at once; further answers are shortened by rules."""

_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_SEPARATED = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")


class Extractor:
    """Asks one model, for one event loop."""

    def __init__(self, endpoint: "EndpointExtractor") -> None:
        self._endpoint = endpoint
        self._limits = EndpointLimits("extractor", wait_s=WAIT_S, at_once=AT_ONCE)

    @classmethod
    def of(cls, settings: GatewaySettings) -> "Extractor | None":
        """The extractor that the settings name, if any. Raises `SettingsError` if they name a half
        of one.
        """
        if settings.extractor_url is None and settings.extractor_model is None:
            return None
        if settings.extractor_url is None or settings.extractor_model is None:
            raise SettingsError("an extractor needs both extractor_url and extractor_model")
        from adapters.openai import EndpointExtractor

        key = settings.extractor_key
        secret = key.get_secret_value() if key else None
        endpoint = EndpointExtractor(settings.extractor_url, settings.extractor_model, secret)
        return cls(endpoint)

    async def extracted(
        self, read: Compressed, budget: Budget, question: str, of_tokens: int
    ) -> Compressed | None:
        """What the model copied from `read`, if that is within the budget and every number of it
        stands there; None if not, or if the model can't be asked.
        """
        most = budget.limit if budget.unit == "tokens" else budget.limit // 2
        try:
            async with self._limits.slot():
                text = await self._endpoint.extract(read.text, question, most)
        except NotAskedError:
            return None  # an earlier failure is in the log already
        except UpstreamFault as fault:
            log.warning("answers are shortened without the extractor: %s", fault.message)
            return None
        if not budget.fits(text) or not _is_copied(text, read.text):
            return None
        by = f"model:{self._endpoint.model}"
        return Compressed(text, "text", budget.tokens(text), of_tokens, by=by)


def _is_copied(text: str, source: str) -> bool:
    """Whether every number of a text stands in its source; a thousands separator makes none."""
    there = {*_PLAIN.findall(source), *_numbers(source)}
    return _numbers(text) <= there


def _numbers(text: str) -> set[str]:
    return {found.replace(",", "") for found in _SEPARATED.findall(text)}
