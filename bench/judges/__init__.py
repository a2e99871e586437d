"""Judges, which say whether an answer is right and whether the tools suited the question."""

from bench.judges.judge import Judge, JudgeParts, JudgeType

__all__ = ["Judge", "JudgeParts", "JudgeType"]
