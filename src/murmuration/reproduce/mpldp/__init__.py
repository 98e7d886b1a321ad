"""MPLDP (Feng, Zhang 2024)."""
