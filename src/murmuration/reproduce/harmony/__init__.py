"""Harmony (Nguyen et al. 2016)."""
