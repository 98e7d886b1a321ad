"""Speed beside peers: `python -m benchmarks.run`."""
