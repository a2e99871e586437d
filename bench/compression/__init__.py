"""How much of what questions need is left in shortened answers: ours beside plain cuts."""
