"""Statistical arithmetic: intervals, sequences, bounds on liars, tests for forged reports."""
