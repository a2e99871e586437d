"""The suite FinTrace (arXiv 2604.10015): nine metrics on whole trajectories."""
