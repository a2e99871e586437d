"""Folders of this checkout, and the data beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

SHARED = ROOT.parent / "shared"
QUESTIONS = SHARED / "datasets" / "fintoolbench" / "questions.jsonl"
"""FinToolBench's 295 questions."""

INVESTORBENCH = SHARED / "datasets" / "investorbench"
"""Prices and news of seven assets."""
