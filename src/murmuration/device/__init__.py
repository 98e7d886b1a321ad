"""What runs on a person's device: the client that answers, and the ledger of what was spent.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     ledger = Ledger(f"{folder}/ledger.db", lifetime=1.0)
...     entry = ledger.reserve(Charge("https://a:443", "phones", "d1", "", 0.4, b"report", b"id"))
...     ledger.spent(), ledger.remaining(), [sent.report for sent in ledger.pending()]
(0.4, 0.6, [b'report'])
"""

from murmuration.device.client import Client, Receipt
from murmuration.device.ledger import Entry, Ledger
from murmuration.device.misfits import Misfit
from murmuration.device.record import Charge, Memo
from murmuration.device.sending import Patience

__all__ = ["Charge", "Client", "Entry", "Ledger", "Memo", "Misfit", "Patience", "Receipt"]
