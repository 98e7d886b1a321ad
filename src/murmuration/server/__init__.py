"""HTTP: the collector that devices send to and analysts read from."""
