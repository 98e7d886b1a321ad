"""Other collectors' counts and reports, each of which counts once."""
