"""How large a published campaign is on the wire: plain, as gzip and as brotli.

python -m benchmarks.run_document
"""

from __future__ import annotations

import time

from murmuration.definition.document import publish, read
from murmuration.definition.load import parse
from murmuration.server.encoded import compressed

FORMS = ("identity", "gzip", "br")
HEAD = 'name = "six"\npurpose = "Six attributes."\nepsilon = 4.0\n'
NUMBER = '[[attributes]]\nname = "{}"\nlow = 0\nhigh = 100\n'
LABELS = '[[attributes]]\nname = "{}"\nkind = "category"\nlabels = ["a", "b", "c", "d", "e", "f"]\n'
SPREAD = NUMBER + 'kind = "distribution"\n'
GRADED = NUMBER + 'kind = "graded"\nedges = [30, 70]\nbudgets = [4.0, 2.0, 1.0]\n'


def campaigns() -> dict[str, str]:
    """Campaign files of six attributes: the usual mixture, and those with the longest laws."""
    mixed = (NUMBER, NUMBER, SPREAD, SPREAD, GRADED, LABELS)
    optimal, laplace = (NUMBER + f'mechanism = "{name}"\n' for name in ("optimal", "laplace"))
    return {
        "two numbers, two distributions, one graded, one category": _file(mixed),
        "six numbers by optimal": _file((optimal,) * 6),
        "six distributions": _file((SPREAD,) * 6),
        "six numbers by laplace, the longest law": _file((laplace,) * 6),
    }


def _file(attributes: tuple[str, ...]) -> str:
    return HEAD + "".join(one.format(f"q{place}") for place, one in enumerate(attributes))


def line(name: str, text: str) -> str:
    """Return one line of the table; a document is packed once, and read by every device."""
    document = publish(parse(text))
    start = time.perf_counter()
    forms = compressed(document)
    packed = time.perf_counter()
    read(document)
    done = time.perf_counter()
    sizes = "".join(f"{len(forms[form]):>10,}" if form in forms else " " * 10 for form in FORMS)
    return f"{name:<58}{sizes}{1e3 * (packed - start):>9.0f}{1e3 * (done - packed):>9.0f}"


def main() -> None:
    """Print a line for each campaign."""
    print(
        f"{'epsilon 4, bytes':<58}{'plain':>10}{'gzip':>10}{'br':>10}{'pack ms':>9}{'read ms':>9}"
    )
    for name, text in campaigns().items():
        print(line(name, text))


if __name__ == "__main__":
    main()
