"""Tasks without end over the simulated market: questions made of programs, with proved answers."""
