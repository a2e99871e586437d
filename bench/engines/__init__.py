"""Engines that play the episodes of a run in many processes: Ray."""
