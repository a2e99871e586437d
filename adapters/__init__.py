"""Adapters for upstreams: RapidAPI, AkShare in worker processes, the simulated upstream."""
