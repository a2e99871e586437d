"""Stand-alone programs that serve as baselines of measurements."""
