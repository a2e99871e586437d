"""What is done with recorded runs: scores, paired comparison, retrieval of tools."""
