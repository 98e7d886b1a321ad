"""How one answer is randomised, and how many are read together. One file per mechanism."""
