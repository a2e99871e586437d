"""Answers within a budget of tokens or characters, and filters of rows."""

from gateway.compress.answer import Compressed, compress
from gateway.compress.budget import Budget, BudgetError, Encoding

__all__ = ["Budget", "BudgetError", "Compressed", "Encoding", "compress"]
