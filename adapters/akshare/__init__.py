"""AkShare: its functions run in worker processes."""
