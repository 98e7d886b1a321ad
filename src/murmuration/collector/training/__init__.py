"""Trainings: which reports of a round count, what follows, and what a training ends with."""
