"""Who travels the road: suites, agents, the driver, metrics, reports and speed measurements."""
