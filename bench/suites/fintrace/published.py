"""The figures of FinTrace's paper (arXiv 2604.10015) that its text gives.

Its table of thirteen models is not part of this project.
"""

from collections.abc import Mapping
from typing import Final

PUBLISHED: Final[Mapping[str, Mapping[str, float]]] = {
    "Claude-Opus-4.6": {
        "ToolCallingF1": 0.896,
        "InformationUtilization": 3.23,
        "TaskPassRate": 2.65,
        "FinalAnswerQuality": 3.34,
    },
    "Qwen-3.5-9B": {"StepEfficiency": 1.0, "Redundancy": 1.0},
}
"""By model, the metrics by our names."""
