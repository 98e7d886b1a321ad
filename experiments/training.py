"""Does a training over HTTP learn what a training in one process learns? By Hotelling's T2.

    .venv/bin/python -m experiments.training                       5 runs over HTTP, 60 in process
    .venv/bin/python -m experiments.training --http 1 --runs 20    quicker, and weaker

100,000 simulated people train a logistic model of five features at epsilon 2. Over HTTP each is a
device with a key of its own that fetches the round and sends one report to a collector in another
process (`murmur serve`, SQLite). In process the same people answer the same campaign's rounds by
the operating system's randomness. Orders and noise are independent. The two sets of coefficients
are compared by Hotelling's two-sample T2, at 1%.

Then, for each run over HTTP: the reports that the collector has kept are counted once more, in
process. Round documents and model have to be the same, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from scipy import stats

from murmuration.cli.local_collector import HOST, collecting
from murmuration.collector.publish import served as served_in
from murmuration.collector.store import Store, open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training import model
from murmuration.definition.load import parse
from murmuration.exact.arrays import Floats
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import seeded_rng, system_rng
from murmuration.lab.trainees import Trainees
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.run import LiveTraining

LEVEL = 0.01
FEATURES = ("age", "income", "years", "children", "home")
CAMPAIGN = """
kind = "model"
name = "loans"
purpose = "Who pays back"
model = "logistic"
epsilon = 2.0
people = {people}
cohort = 1000

[[features]]
name = "age"
low = 18
high = 98

[[features]]
name = "income"
low = 0
high = 200000
typical = [10000, 90000]

[[features]]
name = "years"
low = 0
high = 40

[[features]]
name = "children"
low = 0
high = 8

[[features]]
name = "home"
kind = "category"
labels = ["rent", "own"]

[target]
name = "paid"
kind = "category"
labels = ["no", "yes"]
"""


def people(campaign: TrainingCampaign, n: int) -> tuple[Floats, Floats]:
    """The same people in every run."""
    rng = np.random.default_rng(17)
    table = {
        "age": rng.uniform(18, 98, n),
        "income": np.clip(rng.lognormal(10.5, 0.6, n), 0, 200_000),
        "years": rng.uniform(0, 40, n),
        "children": rng.integers(0, 9, n).astype(float),
        "home": rng.choice(["rent", "own"], n).tolist(),
    }
    score = (table["age"] - 58) / 25 + (table["income"] - 40_000) / 30_000
    score = score - table["children"] / 4 + (np.array(table["home"]) == "own") * 0.8
    paid = np.where(score + rng.logistic(size=n) > 0, "yes", "no").tolist()
    return campaign.encode(table, paid, seeded_rng(1))


def in_process(campaign: TrainingCampaign, x: Floats, y: Floats) -> Floats:
    """Train once; return intercept and coefficients."""
    live, rng = LiveTraining(campaign), system_rng()
    order = np.random.default_rng().permutation(len(x))
    while (found := live.round) is not None:
        who, order = np.split(order, [found.size])
        values = [question.values(x[who], y[who]) for question in found.questions]
        live.close(found.tally(found.frame.privatize(values, rng)))
    return coefficients(model.of(campaign, live.trained, len(x)))


def coefficients(found: model.TrainedModel) -> Floats:
    """Return intercept and weights of the encoded columns: no unit outweighs another."""
    return np.array([found.encoded_intercept, *(weight / found.scale for weight in found.weights)])


def over_http(campaign: TrainingCampaign, text: str, x: Floats, y: Floats) -> tuple[Floats, float]:
    """Train once over HTTP; return intercept and coefficients, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        file, store = Path(folder) / "loans.toml", f"{folder}/loans.db"
        file.write_text(text)
        with collecting(file, store, 0) as (_, port):
            url = f"http://{HOST}:{port}/v1/campaigns/loans"
            trainees, begun = Trainees(campaign, url, Key.new(), x, y), time.perf_counter()
            if not trainees.play():
                raise RuntimeError(f"training is not over: {trainees.sent}")
            seconds = time.perf_counter() - begun
        with closing(open_store(store, readonly=True)) as opened:
            require_same(opened, campaign)
            served = served_in(opened, campaign.name).of_kind(TrainingCampaign)
            kept = stored.finished(opened, served.key) or b""
        return coefficients(model.from_json(kept)), seconds


def require_same(store: Store, campaign: TrainingCampaign) -> None:
    """Count the reports that were kept once more: the same rounds, the same model."""
    served, live, people = (
        served_in(store, campaign.name).of_kind(TrainingCampaign),
        LiveTraining(campaign),
        0,
    )
    for kept in stored.rounds(store, served.key):
        found = live.round
        if found is None or found.digest != kept.digest:
            raise RuntimeError(f"round {kept.number} does not follow from the reports")
        rows = [rows for _, rows, _ in store.kept_reports(kept.own, found.row_bytes)]
        tallies = found.tally(np.concatenate(rows))
        people += sum(tally.n for tally in tallies)
        live.close(tallies)
    again = model.to_json(model.of(campaign, live.trained, people))
    if again != stored.finished(store, served.key):
        raise RuntimeError("the model does not follow from the reports")


def hotelling(some: Floats, others: Floats) -> tuple[float, float]:
    """Return T2 of two samples with one covariance, and how often chance has it larger."""
    n, m, d = len(some), len(others), some.shape[1]
    apart = some.mean(axis=0) - others.mean(axis=0)
    parts = [(part - part.mean(axis=0)) for part in (some, others)]
    spread = sum(part.T @ part for part in parts) / (n + m - 2)
    t2 = n * m / (n + m) * float(apart @ np.linalg.solve(spread, apart))
    f = t2 * (n + m - d - 1) / ((n + m - 2) * d)
    return t2, float(stats.f.sf(f, d, n + m - d - 1))


def main() -> int:
    """Run both, compare, and say so; exit code 1 if they differ."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--http", type=int, default=5, help="Trainings over HTTP.")
    options.add_argument("--runs", type=int, default=60, help="Trainings in process.")
    options.add_argument("--people", type=int, default=100_000)
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    text = CAMPAIGN.format(people=asked.people)
    campaign = parse(text, TrainingCampaign)
    if not isinstance(campaign, TrainingCampaign):
        raise TypeError("this campaign trains a model")
    x, y = people(campaign, asked.people)
    own = []
    for run in range(asked.runs):
        own.append(in_process(campaign, x, y))
        print(f"\rin process: {run + 1} of {asked.runs}", end="", file=sys.stderr)
    sent = []
    for run in range(asked.http):
        found, seconds = over_http(campaign, text, x, y)
        sent.append(found)
        print(f"\nover HTTP: {run + 1} of {asked.http}, {seconds:.1f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    t2, p = hotelling(np.array(sent), np.array(own))
    names = ("intercept", *campaign.columns)
    rows = zip(
        names, np.mean(sent, axis=0), np.mean(own, axis=0), np.std(own, axis=0, ddof=1), strict=True
    )
    table = [[name, *map(float, values)] for name, *values in rows]
    if asked.json:
        print(json.dumps({"t2": t2, "p": p, "rows": table, "same_bits": True}, indent=2))
    else:
        print(f"{'':12} {'over HTTP':>10} {'in process':>10} {'its spread':>10}")
        for name, *values in table:
            print(f"{name:12} " + " ".join(f"{value:10.4f}" for value in values))
        print(f"{asked.http} over HTTP against {asked.runs} in process: T2 {t2:.2f}, p {p:.3f}")
        print("the same bits from the same reports: yes")
    return int(p < LEVEL)


if __name__ == "__main__":
    sys.exit(main())
