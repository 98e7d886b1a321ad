"""HierA (Hao, Wu, Wan 2023)."""
