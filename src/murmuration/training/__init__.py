"""Training with one question per person: the campaign, its rounds, how a device answers."""
