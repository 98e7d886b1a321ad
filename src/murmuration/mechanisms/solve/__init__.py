"""Linear programs that find the best tables. Floating-point numbers stay in this folder."""
