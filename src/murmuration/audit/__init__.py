"""Is the promise kept? Exactly, from the integers; and empirically, from the bytes on the wire."""

from murmuration.audit import empirical, exact

__all__ = ["empirical", "exact"]
