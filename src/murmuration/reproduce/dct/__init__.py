"""DCT (Zhu, Wang, Sun 2022)."""
