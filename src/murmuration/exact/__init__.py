"""Integers that decide: words, grids, tables of weights, and the exact loss that they have."""
