"""How a model is asked: the client of OpenAI-compatible endpoints, and a simulated model."""
