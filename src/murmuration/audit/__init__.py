"""Is the promise kept? Exactly, from the integers; and empirically, from the bytes on the wire."""

from murmuration.audit import admission, empirical, exact

__all__ = ["admission", "empirical", "exact"]
