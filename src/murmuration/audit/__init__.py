"""Is the promise kept? Exactly, from the integers; and empirically, from the bytes on the wire."""
