"""Simulation and comparison only: nothing here runs in a collection."""
