"""The figures that FinToolBench's authors publish for four models (arXiv 2603.08262, main table).

Their evaluator detects failed calls by words in the output, so its TESR and CER compare with our
`TESR_text` and `CER_text`.
"""

from collections.abc import Mapping
from typing import Final

_NAMES = ("TIR", "TESR_text", "CER_text", "SoftScore", "CSS", "TMR", "IMR", "DMR")

_ROWS: Final[Mapping[str, tuple[float, ...]]] = {
    "Doubao-Seed-1.6": (0.6508, 0.3254, 0.5000, 0.3958, 0.4627, 0.3438, 0.6563, 0.1719),
    "Qwen3-8B": (0.8712, 0.2949, 0.3385, 0.4234, 0.4040, 0.3307, 0.6887, 0.1673),
    "GLM-4.7-Flash": (0.4407, 0.2102, 0.4769, 0.2769, 0.3791, 0.4615, 0.7231, 0.1769),
    "GPT-4o": (0.2267, 0.1400, 0.6176, 0.2302, 0.6700, 0.3529, 0.5000, 0.1176),
}

PUBLISHED: Final[Mapping[str, Mapping[str, float]]] = {
    model: dict(zip(_NAMES, row, strict=True)) for model, row in _ROWS.items()
}
"""By model, the metrics by our names."""
