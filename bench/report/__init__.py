"""The report of a run: one self-contained page of HTML."""
