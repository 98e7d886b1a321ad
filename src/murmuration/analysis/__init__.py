"""From tallies to figures: read, combine, post-process."""
