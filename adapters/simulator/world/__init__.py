"""The market that the simulated upstreams show: pure, seeded, without I/O."""
