"""What is measured and takes minutes: `python -m experiments.coverage`."""
