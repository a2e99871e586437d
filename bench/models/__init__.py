"""Requests to models: the client of OpenAI-compatible endpoints, and a simulated model."""
