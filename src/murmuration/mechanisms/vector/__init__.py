"""Mechanisms for several attributes, or for one vector, in one report."""
