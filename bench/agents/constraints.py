"""What a question requires of a tool beyond its subject (FATR, arXiv 2603.08262): how timely its
data must be, its regulatory domains, and how risky an intent it allows.

A model infers these constraints, and its answer is read strictly: an answer that does not have
exactly this shape sets no constraint. The hard filter never leaves an agent without tools.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from manifests import Manifest
from manifests.common.problem import first_problem
from manifests.manifest import Domain, Intent, Timeliness

INFER = """\
TASK: constraints
You read a question about finance and say what a tool must be like to help with it. Do not answer \
the question. Reply with one JSON object and nothing else:
{"timeliness": ..., "domains": [...], "intent": ...}

timeliness: how current the data must be. "realtime": as of this minute; "daily", "weekly", \
"monthly": published at that pace; "as_filed": it stands in reports that companies or funds file; \
"periodic": published at other regular times; "static": it hardly ever changes. null if the \
question leaves it open.
domains: each domain that the question belongs to, of "equity", "bond", "fund", "forex", \
"derivatives", "macro", "economic_policy", "sentiment_trading", "esg", "crypto". [] if none fits.
intent: "informational" if facts are asked for, "advisory" if a recommendation is, "transactional" \
only if an order or a payment is to be made."""

_RISK: dict[Intent, int] = {"informational": 0, "advisory": 1, "transactional": 2}


class Constraints(BaseModel):
    """Constraints as a model states them; further fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)

    timeliness: Timeliness | None
    domains: tuple[Domain, ...]
    intent: Intent

    def allow(self, tool: Manifest) -> bool:
        """Whether a tool shares a domain with the question and is no riskier than it allows.
        Timeliness is a preference and excludes nothing.
        """
        overlap = not self.domains or not set(self.domains).isdisjoint(tool.regulatory_domains)
        return overlap and _RISK[tool.intent_type] <= _RISK[self.intent]

    def in_words(self) -> str:
        """Text for the planner."""
        domains = ", ".join(self.domains) or "open"
        timeliness = self.timeliness or "open"
        return f"timeliness: {timeliness}; domains: {domains}; intent: {self.intent}"


class ConstraintsError(Exception):
    """A model's answer states no constraints; the text says why, without repeating it."""


def read(text: str) -> Constraints:
    """The constraints in a model's answer, which may have fences or words around its JSON object.

    Raises `ConstraintsError`.
    """
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end:
        raise ConstraintsError("there is no JSON object in the answer")
    try:
        return Constraints.model_validate_json(text[start:end])
    except ValidationError as error:
        raise ConstraintsError(first_problem(error)) from None


def split(
    tools: Sequence[Manifest], constraints: Constraints
) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...]]:
    """The tools that the constraints allow, and those that they drop. If they allow none, none is
    dropped.
    """
    allowed = tuple(tool for tool in tools if constraints.allow(tool))
    if not allowed:
        return tuple(tools), ()
    return allowed, tuple(tool for tool in tools if not constraints.allow(tool))
