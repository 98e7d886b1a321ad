"""Learning as the four papers describe it: schedules, rounds, gradients, HierA."""
