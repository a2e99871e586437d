"""RapidAPI: how its endpoints are called."""
