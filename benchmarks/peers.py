"""Other packages that can randomise a number in [-1, 1] on a device: how to install and call them.

Each runs in a folder of its own under .bench/, because they pin versions against each other. All
of them are Laplace noise at epsilon 1 (sensitivity 2, scale 2); none has Duchi, piecewise, hybrid
or square wave. Packages that cannot be installed are reported as such.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(".bench")


@dataclass(frozen=True)
class Peer:
    """A package, the lines that prepare it, the line that randomises X, and what it draws from."""

    name: str
    requires: tuple[str, ...]
    prepare: str
    call: str
    people: int
    secure: bool


PEERS = [
    Peer(
        "trasgodp",
        ("trasgoDP==2.1.0",),
        "from trasgodp.numerical import dp_clip_laplace_array",
        "dp_clip_laplace_array(X, 1.0, -1.0, 1.0)",
        1_000_000,
        secure=False,
    ),
    Peer(
        "diff-priv-laplace-python",
        ("diff-priv-laplace-python==1.0.5",),
        "from diffpriv_laplace import DiffPrivLaplaceMechanism as L\n"
        "m = L.create_sum_anonymizer(0.5, -1.0, 1.0)",
        "m.apply(X)",
        1_000_000,
        secure=False,
    ),
    Peer(
        "python-dp",
        ("python-dp==1.1.5", "numpy"),
        "from pydp.algorithms.numerical_mechanisms import LaplaceMechanism\n"
        "m = LaplaceMechanism(1.0, 2.0)",
        "[m.add_noise(v) for v in X.tolist()]",
        100_000,
        secure=True,
    ),
    Peer(
        "opendp",
        ("opendp==0.16.0", "numpy"),
        "import opendp.prelude as dp\ndp.enable_features('contrib')\n"
        "m = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T='i32')), "
        "dp.l1_distance(T='i32'), scale=2000.0)",
        "m(np.rint(X * 1000).astype(np.int32).tolist())",
        100_000,
        secure=True,
    ),
    Peer(
        "diffprivlib",
        ("diffprivlib==0.6.6", "scikit-learn<1.7"),
        "from diffprivlib.mechanisms import Laplace\nm = Laplace(epsilon=1.0, sensitivity=2.0)",
        "[m.randomise(v) for v in X.tolist()]",
        10_000,
        secure=True,
    ),
]

TIMER = """
import json, time
import numpy as np
X = np.random.default_rng(1).uniform(-1, 1, {people})
{prepare}
best = float("inf")
for _ in range(3):
    start = time.perf_counter()
    {call}
    best = min(best, time.perf_counter() - start)
print(json.dumps({people} / best))
"""


def rate(peer: Peer) -> float | None:
    """Return the peer's people per second (best of three), or None when it does not install."""
    script = TIMER.format(people=peer.people, prepare=peer.prepare, call=peer.call)
    found = output(peer.name, peer.requires, script)
    return None if found is None else float(found)


def output(package: str, requires: tuple[str, ...], script: str) -> Any:
    """Return the JSON that a script prints in the package's own folder, which is made if need be.

    None, and a line on standard error, when the package does not install or the script fails.
    """
    python = HOME / package / "bin" / "python"
    try:
        if not python.exists():
            _run([sys.executable, "-m", "venv", str(HOME / package)])
            _run([str(python), "-m", "pip", "install", "-q", *requires])
        return json.loads(_run([str(python), "-c", script]))
    except subprocess.CalledProcessError as problem:
        print(f"{package} cannot be measured here: {problem.stderr[-300:]}", file=sys.stderr)
        return None


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout
