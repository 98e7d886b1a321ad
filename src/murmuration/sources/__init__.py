"""Where figures are read from: a store, an address, a file of tallies."""
