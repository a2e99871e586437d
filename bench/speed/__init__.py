"""Speed measurements, each beside a baseline in the same run."""
