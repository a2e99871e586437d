"""The environment of one agent, with defaults that run anywhere."""

import verifiers.v1 as vf

OUTAGE = vf.RetryRule(type=vf.ToolsetError.__name__, max_retries=5)
"""How often a rollout is played again that met an outage."""


class FinportEnvConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(
        runtime=vf.SubprocessConfig(), max_turns=30, retries=vf.RetryConfig(rules=[OUTAGE])
    )
    """The one seat. It plays in a process of this machine, and a rollout that met an outage is
    played again; one that still meets it keeps its error, by which trainers leave it out."""


class FinportEnv(vf.SingleAgentEnv, vf.Env[FinportEnvConfig]):
    """One agent plays each task."""
