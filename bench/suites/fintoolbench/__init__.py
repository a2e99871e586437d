"""FinToolBench (arXiv 2603.08262): tasks, metrics, rules, prompts, published figures."""
