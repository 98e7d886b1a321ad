"""What other packages have of what ours do: the lines that call them, and nothing else.

Numbers: Laplace noise of scale 2 on [-1, 1]; none of them has Duchi, piecewise, hybrid or square
wave, and none a collector: the mean of what they make is their user's own line. Items: pure-ldp
gives unbiased counts, multi-freq-ldpy and ldp-toolbox proportions that are clipped at 0 and
renormalised. Vectors: OpenDP's Laplace on all coordinates (d times the sensitivity); Flower's noise
on a clipped update (Gaussian: delta 1e-5, not 0), and its averaging. Surveys: one attribute of
several.

Measured on Python 3.11. pure-ldp's Hadamard response calls `random.randint` with a float, which
Python 3.12 and later refuse.
"""

from __future__ import annotations

from benchmarks.contest import Entry

SIZES = (16, 128, 1024, 16_384)
COORDINATES = (16, 128)
ATTRIBUTES = (8,)

# pure-ldp imports scikit-learn and statsmodels without declaring them. All three hash `str` with
# xxhash for OLH, which xxhash 4 refuses.
PURE = ("pure-ldp==1.2.0", "numpy==2.4.6", "xxhash==3.8.2", "scikit-learn", "statsmodels")
MULTI = ("multi-freq-ldpy==0.2.5", "numpy==2.4.6", "xxhash==3.8.2")
TOOLBOX = ("ldp-toolbox==0.1.3", "numpy==2.4.6", "xxhash==3.8.2")
OPENDP = ("opendp==0.16.0", "numpy")
FLOWER = ("flwr==1.41.0", "numpy==2.4.6")


def _number(
    package: str,
    requires: tuple[str, ...],
    prepare: str,
    device: str,
    people: int,
    secure: bool,
) -> Entry:
    return Entry(package, requires, "number", "laplace", prepare, device, "", people, secure=secure)


NUMBERS = [
    _number(
        "trasgodp",
        ("trasgoDP==2.1.0",),
        "from trasgodp.numerical import dp_clip_laplace_array",
        "R = dp_clip_laplace_array(X, EPS, -1.0, 1.0)",
        500_000,
        secure=False,
    ),
    _number(
        "diff-priv-laplace-python",
        ("diff-priv-laplace-python==1.0.5",),
        "from diffpriv_laplace import DiffPrivLaplaceMechanism as L\n"
        "m = L.create_sum_anonymizer(EPS / 2, -1.0, 1.0)",
        "R = m.apply(X)",
        500_000,
        secure=False,
    ),
    _number(
        "python-dp",
        ("python-dp==1.1.5", "numpy"),
        "from pydp.algorithms.numerical_mechanisms import LaplaceMechanism\n"
        "m = LaplaceMechanism(EPS, 2.0)",
        "R = [m.add_noise(v) for v in X.tolist()]",
        50_000,
        secure=True,
    ),
    _number(
        "opendp",
        OPENDP,
        "import opendp.prelude as dp\ndp.enable_features('contrib')\n"
        "m = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T='i32')), "
        "dp.l1_distance(T='i32'), scale=2000.0 / EPS)",
        "R = m(np.rint(X * 1000).astype(np.int32).tolist())",
        50_000,
        secure=True,
    ),
    _number(
        "diffprivlib",
        ("diffprivlib==0.6.6", "scikit-learn<1.7"),
        "from diffprivlib.mechanisms import Laplace\nm = Laplace(epsilon=EPS, sensitivity=2.0)",
        "R = [m.randomise(v) for v in X.tolist()]",
        5_000,
        secure=True,
    ),
]


def _pure(protocol: str, names: str, client: str, server: str, people: int, wide: bool) -> Entry:
    prepare = (
        f"from pure_ldp.frequency_oracles import {names}\n"
        f"server = {server}\nclient = {client}\n"
        "list(map(client.privatise, [0, 1]))"
    )
    collect = (
        "server.reset()\nserver.aggregate_all(R)\n"
        "server.check_and_update_estimates()\nH = np.asarray(server.get_estimates) / len(X)"
    )
    device = "R = [client.privatise(x) for x in X.tolist()]"
    return Entry(
        "pure-ldp", PURE, "item", protocol, prepare, device, collect, people, SIZES, wide=wide
    )


def _multi(protocol: str, module: str, client: str, collect: str, people: int, wide: bool) -> Entry:
    name = module.split(".")[-1]
    prepare = (
        f"from multi_freq_ldpy.pure_frequency_oracles.{module} import "
        f"{name}_Aggregator_MI as collect, {name}_Client as client\n{client.format(x=0)}"
    )
    device = f"R = [{client.format(x='x')} for x in X.tolist()]"
    return Entry(
        "multi-freq-ldpy",
        MULTI,
        "item",
        protocol,
        prepare,
        device,
        f"H = {collect}",
        people,
        SIZES,
        wide=wide,
    )


def _toolbox(
    protocol: str, module: str, made: str, people: int, wide: bool, wall: bool = False
) -> Entry:
    name = made.split("(")[0]
    prepare = (
        f"from ldp_toolbox.protocols.frequency.{module} import {name}\nprotocol = {made}\n"
        "protocol.estimate([protocol.obfuscate(0) for _ in range(64)])"
    )
    return Entry(
        "ldp-toolbox",
        TOOLBOX,
        "item",
        protocol,
        prepare,
        "R = [protocol.obfuscate(x) for x in X.tolist()]",
        "H = protocol.estimate(R)",
        people,
        SIZES,
        wide=wide,
        wall=wall,
    )


_SAME = "index_mapper=lambda x: x"
ITEMS = [
    _pure(
        "grr",
        "DEClient, DEServer",
        f"DEClient(EPS, K, {_SAME})",
        f"DEServer(EPS, K, {_SAME})",
        200_000,
        wide=False,
    ),
    *(
        _pure(
            protocol,
            "UEClient, UEServer",
            f"UEClient(EPS, K, use_oue={best}, {_SAME})",
            f"UEServer(EPS, K, use_oue={best}, {_SAME})",
            6_000,
            wide=True,
        )
        for protocol, best in (("sue", False), ("oue", True))
    ),
    _pure(
        "olh",
        "LHClient, LHServer",
        f"LHClient(EPS, K, use_olh=True, {_SAME})",
        f"LHServer(EPS, K, use_olh=True, {_SAME})",
        500,
        wide=True,
    ),
    _pure(
        "hadamard-response",
        "HadamardResponseClient, HadamardResponseServer",
        f"HadamardResponseClient(EPS, K, server.get_hash_funcs(), {_SAME})",
        f"HadamardResponseServer(EPS, K, {_SAME})",
        40_000,
        wide=False,
    ),
    _multi("grr", "GRR", "client({x}, K, EPS)", "collect(R, K, EPS)", 150_000, wide=False),
    _multi("sue", "UE", "client({x}, K, EPS, False)", "collect(R, EPS, False)", 10_000, wide=True),
    _multi("oue", "UE", "client({x}, K, EPS, True)", "collect(R, EPS, True)", 10_000, wide=True),
    _multi("olh", "LH", "client({x}, K, EPS, True)", "collect(R, K, EPS, True)", 500, wide=True),
    _multi("subset", "SS", "client({x}, K, EPS)", "collect(R, K, EPS)", 5_000, wide=True),
    _toolbox("grr", "grr", "GeneralizedRandomizedResponse(K, EPS)", 200_000, wide=False),
    _toolbox("sue", "ue", "UnaryEncoding(K, EPS, optimal=False)", 10_000, wide=True),
    _toolbox("oue", "ue", "UnaryEncoding(K, EPS, optimal=True)", 10_000, wide=True),
    # Its first estimate starts joblib's workers, one for each core.
    _toolbox("olh", "lh", "LocalHashing(K, EPS, optimal=True)", 500, wide=True, wall=True),
    _toolbox("subset", "ss", "SubsetSelection(K, EPS)", 10_000, wide=True),
]

VECTORS = [
    Entry(
        "opendp",
        OPENDP,
        "vector",
        "laplace on all",
        "import opendp.prelude as dp\ndp.enable_features('contrib')\n"
        "m = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T='i32')), "
        "dp.l1_distance(T='i32'), scale=2000.0 * K / EPS)",
        "R = [m(row) for row in np.rint(X * 1000).astype(np.int32).tolist()]",
        "H = np.mean(R, axis=0) / 1000",
        1_000,
        COORDINATES,
        secure=True,
    ),
    Entry(
        "flower",
        FLOWER,
        "vector",
        "clip and Gaussian noise",
        "from flwr.supercore.differential_privacy import add_gaussian_noise_inplace as noise\n"
        "from flwr.supercore.differential_privacy import clip_inputs_inplace as clip\n"
        "from flwr.server.strategy.aggregate import aggregate\n"
        "deviation = 2 * np.sqrt(2 * np.log(1.25e5)) / EPS",
        "R = [([row.copy()], 1) for row in X]\n"
        "for update, _ in R:\n    clip(update, 1.0)\n    noise(update, deviation)",
        "H = aggregate(R)[0]",
        10_000,
        COORDINATES,
    ),
]

SURVEYS = [
    Entry(
        "multi-freq-ldpy",
        MULTI,
        "survey",
        f"one of several, {name.lower()}",
        f"from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_{name}_Client as client\n"
        f"from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_{name}_Aggregator_MI as all\n"
        f"sizes = [16] * K\nclient(X[0], {given})",
        f"R = [client(x, {given}) for x in X]",
        f"H = all(R, {given})",
        20_000,
        ATTRIBUTES,
    )
    for name, given in (("GRR", "sizes, K, EPS"), ("SS", "sizes, K, EPS"))
]

PEERS = [*NUMBERS, *ITEMS, *VECTORS, *SURVEYS]
