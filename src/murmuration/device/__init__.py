"""What runs on a person's device: the client that answers, and the ledger of what was spent.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     ledger = Ledger(f"{folder}/ledger.db", lifetime=1.0)
...     entry = ledger.charge("https://a:443", "phones", "d1", "", 0.4, None, b"report", b"id")
...     ledger.spent(), ledger.remaining(), [one.report for one in ledger.pending()]
(0.4, 0.6, [b'report'])
"""

from murmuration.device.client import Client, Receipt
from murmuration.device.ledger import Entry, Ledger, Memo
from murmuration.device.sending import Patience

__all__ = ["Client", "Entry", "Ledger", "Memo", "Patience", "Receipt"]
