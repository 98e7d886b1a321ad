"""Where the test vectors are: beside the specification, as devices in every language read them."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
VECTORS = DOCS / "vectors"
CAMPAIGNS = VECTORS / "campaigns"
KEYED = VECTORS / "keyed"
