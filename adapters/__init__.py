"""How an upstream is reached: RapidAPI, AkShare in worker processes, the upstream double."""
