"""What models cost: a file of prices, and the money of tokens.

Money is known or unknown, and never 0 because something was not known: a model without a price, or
an endpoint that counts no tokens, makes it unknown.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from manifests.common.problem import first_problem
from manifests.common.regular_file import read_text

MOST_BYTES = 2**16
"""The longest file of prices; `run.json` holds all of them."""

MILLION = 1e6

Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class PricesError(Exception):
    """A file holds no prices; the text says why."""


class Price(BaseModel):
    """The price of a million tokens of one model. `cached_input` is that of input tokens that the
    endpoint had cached; without it they cost what others cost.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    input: Amount
    output: Amount
    cached_input: Amount | None = None

    def of(self, tokens: Mapping[str, int]) -> float:
        """The money of `input` tokens, `cached` of them, and `output` tokens."""
        cached = min(tokens["cached"], tokens["input"])
        of_cached = self.input if self.cached_input is None else self.cached_input
        money = (tokens["input"] - cached) * self.input + cached * of_cached
        return (money + tokens["output"] * self.output) / MILLION

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """The money of so many tokens if none, or each, was cached, whichever is more."""
        dearest = max(self.input, self.cached_input or 0.0)
        return (input_tokens * dearest + output_tokens * self.output) / MILLION


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in a currency, None where it is unknown; `why` says then what lacks."""

    amount: float | None
    currency: str
    why: str = ""

    def __str__(self) -> str:
        if self.amount is None:
            return f"money unknown: {self.why}"
        return f"{amount_text(self.amount)} {self.currency}"


def amount_text(amount: float) -> str:
    """An amount with two decimals, one under 1 with three digits that tell something."""
    if amount >= 1 or not amount:
        return f"{amount:,.2f}"
    return f"{amount:.3g}" if amount >= 1e-4 else f"{amount:.7f}".rstrip("0").rstrip(".")


class Prices(BaseModel):
    """Prices by the name of the model, in one currency."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    currency: Annotated[str, Field(min_length=1, max_length=10, pattern=r"^\w+$")]
    models: Annotated[dict[str, Price], Field(min_length=1)]

    @classmethod
    def read(cls, path: Path) -> "Prices":
        """The prices in a file, of JSON if its name ends so, else of TOML. Raises `PricesError`."""
        try:
            text = read_text(path, MOST_BYTES)
            is_json = path.suffix == ".json"
            said = orjson.loads(text) if is_json else tomllib.loads(text.decode())
            return cls.model_validate(said)
        except OSError as error:
            raise PricesError(f"{path}: {error.strerror}") from error
        except ValidationError as error:
            raise PricesError(f"{path}: {first_problem(error)}") from error
        except (ValueError, RecursionError) as error:
            raise PricesError(f"{path}: it can't be read: {error}") from error

    def of_model(self, asked: str, answered_by: str | None = None) -> Price | None:
        """The price of the model that was asked for, else of the one that answered."""
        return self.models.get(asked) or self.models.get(answered_by or "")

    def money(self, metrics: Mapping[str, Any], whose: str) -> Money | None:
        """What the requests of the `agent` or the `judge` cost, by the content of `metrics.json`;
        None if there were none.
        """
        usage = metrics["usage"] if whose == "agent" else metrics["usage"]["judge"]
        if not usage["model_calls"]["calls"]:
            return None
        if "models" not in metrics:
            why = "the run does not say which model took which tokens; score it again"
            return Money(None, self.currency, why)
        amount = 0.0
        for row in metrics["models"][whose]:
            price = self.of_model(row["model"], row["answered_by"])
            name = row["model"] or "further models"
            if row["uncounted"]:
                of = f"{row['uncounted']} of {row['calls']} requests to {name}"
                return Money(None, self.currency, f"the endpoint counted no tokens of {of}")
            if price is None and any(row["tokens"].values()):
                return Money(None, self.currency, f"no price of {name}")
            amount += price.of(row["tokens"]) if price else 0.0
        return Money(amount, self.currency)
