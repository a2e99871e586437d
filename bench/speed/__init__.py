"""Speed, each measurement beside a baseline in the same run."""
