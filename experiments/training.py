"""Does a training over HTTP learn what a training in one process learns? By Hotelling's T2.

    python -m experiments.evidence training

100,000 simulated people train a logistic model of five features at epsilon 2. Over HTTP each is a
device with a key of its own that fetches the round and sends one report to a collector in another
process (`murmur serve`, SQLite). In process the same people answer the same campaign's rounds by
seeded randomness. Orders and noise are independent. The two sets of coefficients
are compared by Hotelling's two-sample T2, at 1%.

Then, for each run over HTTP: the reports that the collector has kept are counted once more, in
process. Round documents and model have to be the same, bit for bit.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.piece import Figures, Piece, Row
from murmuration.cli.local_collector import HOST, collecting
from murmuration.collector.publish import served as served_in
from murmuration.collector.store import Store, open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training import model
from murmuration.definition.load import parse
from murmuration.exact.arrays import Floats
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import seeded_rng
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


def in_process(campaign: TrainingCampaign, x: Floats, y: Floats, seed: int) -> Floats:
    """Train once; return intercept and coefficients."""
    live, rng = LiveTraining(campaign), seeded_rng(seed)
    order = np.random.default_rng(seed).permutation(len(x))
    while (found := live.round) is not None:
        who, order = np.split(order, [found.size])
        values = [question.values(x[who], y[who]) for question in found.questions]
        live.close(found.form.tally(found.frame.privatize(values, rng)))
    return coefficients(model.of(campaign, live.trained, len(x)))


def coefficients(found: model.TrainedModel) -> Floats:
    """Return intercept and weights of the encoded columns: no unit outweighs another."""
    return np.array([found.encoded_intercept, *np.divide(found.weights, found.scale)])


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
        rows = [rows for _, rows, _ in store.kept_reports(kept.own, found.form.row_bytes)]
        tallies = found.form.tally(np.concatenate(rows))
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


HTTP, IN_PROCESS, PEOPLE = 5, 60, 100_000
NAMES = ("intercept", *FEATURES)


def part(number: int) -> Row:
    """Train once: the first parts over HTTP, the others in process."""
    text = CAMPAIGN.format(people=PEOPLE)
    campaign = parse(text, TrainingCampaign)
    x, y = people(campaign, PEOPLE)
    if number >= HTTP:
        return {"http": False, "coefficients": in_process(campaign, x, y, number).tolist()}
    found, seconds = over_http(campaign, text, x, y)
    return {"http": True, "coefficients": found.tolist(), "seconds": seconds}


def figures(rows: Sequence[Row]) -> Figures:
    """Compare both samples, if there are enough runs of each."""
    sent, own = (
        np.array([row["coefficients"] for row in rows if row["http"] == http])
        for http in (True, False)
    )
    found: Figures = {"http": len(sent), "in process": len(own), "people": PEOPLE}
    for name, sample in (("over HTTP", sent), ("in process", own)):
        found |= {f"{name}, {column}": float(sample[:, i].mean()) for i, column in enumerate(NAMES)}
    if len(sent) > 1 and len(sent) + len(own) > 2 * len(NAMES):
        t2, p = hotelling(sent, own)
        assert p >= LEVEL, f"trainings over HTTP differ from those in process: T2 {t2:.2f}, p {p}"
        found |= {"T2": t2, "p": p}
    seconds = [row["seconds"] for row in rows if row["http"]]
    return found | {"seconds, least": min(seconds), "seconds, most": max(seconds)}


PIECE = Piece(
    "a training over HTTP beside trainings in one process, by Hotelling's T2",
    part,
    parts=HTTP + IN_PROCESS,
    sample=(0, HTTP),
    figures=figures,
    alone=True,
)
