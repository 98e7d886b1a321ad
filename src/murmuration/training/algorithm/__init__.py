"""The training algorithm: a pure function from tallies to the next questions, and to the model."""
