"""The names of all environment variables that the bench reads."""

MODEL_KEY = "FINBENCH_MODEL_KEY"
JUDGE_KEY = "FINBENCH_JUDGE_KEY"
GATEWAY_KEY = "FINBENCH_GATEWAY_KEY"
"""The variable with the key of a gateway that requires one."""

NOTIFY = "FINBENCH_NOTIFY"
"""The command or URL that `finbench drift watch` tells of findings; a webhook's URL is a secret."""

AKTOOLS_PYTHON = "FINBENCH_AKTOOLS_PYTHON"
FASTMCP_PYTHON = "FINBENCH_FASTMCP_PYTHON"
INSPECT_PYTHON = "FINBENCH_INSPECT_PYTHON"
"""Variables that each name a Python that has the baseline of a measurement."""

PREFIX = "FINBENCH_"
VARIABLES = frozenset(
    {
        *(MODEL_KEY, JUDGE_KEY, GATEWAY_KEY, NOTIFY),
        *(AKTOOLS_PYTHON, FASTMCP_PYTHON, INSPECT_PYTHON),
    }
)
