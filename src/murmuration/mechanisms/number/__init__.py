"""Mechanisms for one number in [-1, 1]."""
