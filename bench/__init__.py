"""The bench: suites, agents, the driver, metrics, reports and speed measurements."""
