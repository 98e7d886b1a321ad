"""From tallies to figures: read, combine, post-process, and the places to read from."""
