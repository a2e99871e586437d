"""Analysis of recorded runs: scores, paired comparison, retrieval of tools."""
