"""Mechanisms for one of k items."""
