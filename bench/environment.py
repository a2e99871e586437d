"""Every variable of the environment that the bench reads under a name of its own."""

MODEL_KEY = "FINBENCH_MODEL_KEY"
JUDGE_KEY = "FINBENCH_JUDGE_KEY"
GATEWAY_KEY = "FINBENCH_GATEWAY_KEY"
"""Names the key of a gateway that wants one."""

AKTOOLS_PYTHON = "FINBENCH_AKTOOLS_PYTHON"
FASTMCP_PYTHON = "FINBENCH_FASTMCP_PYTHON"
INSPECT_PYTHON = "FINBENCH_INSPECT_PYTHON"
"""Name a Python that has what a measurement is made beside."""

PREFIX = "FINBENCH_"
VARIABLES = frozenset(
    {
        *(MODEL_KEY, JUDGE_KEY, GATEWAY_KEY),
        *(AKTOOLS_PYTHON, FASTMCP_PYTHON, INSPECT_PYTHON),
    }
)
