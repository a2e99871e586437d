"""The suite Finova (github.com/antgroup/Finova): single-turn work with six kinds of answers."""
