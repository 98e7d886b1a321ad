"""Where the test vectors are: beside the specification, as devices in every language read them."""

from __future__ import annotations

from tests.support.places import ROOT

DOCS = ROOT / "docs"
VECTORS = DOCS / "vectors"
CAMPAIGNS = VECTORS / "campaigns"
KEYED = VECTORS / "keyed"
