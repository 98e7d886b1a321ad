"""What an analyst holds: an estimate with its interval, a distribution, a likelihood."""
