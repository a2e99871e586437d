"""The client of a server of this environment."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from finport_openenv.models import FinportAction, FinportObservation, FinportState


class FinportEnv(EnvClient[FinportAction, FinportObservation, FinportState]):
    """Plays episodes over a WebSocket, one after another.

    `reset` takes `suite` and `task` (or OpenEnv's `split` and `index`), or a `seed` that chooses
    the task. `StepResult.reward` is None until the answer, and stays None in an outage: OpenEnv
    reads that as not scored. Don't take it for 0.
    """

    def _step_payload(self, action: FinportAction) -> dict[str, Any]:
        return action.model_dump(exclude_defaults=True)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[FinportObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        seen = payload.get("observation") or {}
        observation = FinportObservation.model_validate({**seen, "reward": reward, "done": done})
        return StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> FinportState:
        return FinportState.model_validate(payload)
