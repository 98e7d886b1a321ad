"""Frequency protocols of other packages, as snippets that only call their public API.

`prepare` runs once with `np`, `X` (n integers in 0..K-1) and `K` in its namespace, compiles
whatever the package compiles lazily, and sets up the client and the server for epsilon 1.
`device` randomises every item of `X` into `R`; `collect` turns `R` into the histogram `H`.
`collect` may be run again on the same namespace. Scale of `H`: pure-ldp gives unbiased counts,
the other two give proportions that were clipped at zero and renormalised.

Measured on Python 3.11. pure-ldp's Hadamard response calls `random.randint` with a float, which
Python 3.12 and later refuse.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrequencyPeer:
    """One protocol of one package: how to install it and how to run both of its sides."""

    package: str
    requires: tuple[str, ...]
    protocol: str
    prepare: str
    device: str
    collect: str
    people: int


# pure-ldp imports scikit-learn and statsmodels without declaring them. All three hash `str` with
# xxhash for OLH, which xxhash 4 refuses.
_PURE = ("pure-ldp==1.2.0", "numpy==2.4.6", "xxhash==3.8.2", "scikit-learn", "statsmodels")
_MULTI = ("multi-freq-ldpy==0.2.5", "numpy==2.4.6", "xxhash==3.8.2")
_TOOLBOX = ("ldp-toolbox==0.1.3", "numpy==2.4.6", "xxhash==3.8.2")

_PURE_DEVICE = "R = [client.privatise(x) for x in X.tolist()]"
_PURE_COLLECT = """\
server.reset()
server.aggregate_all(R)
server.check_and_update_estimates()
H = server.get_estimates
"""
_TOOLBOX_DEVICE = "R = [protocol.obfuscate(x) for x in X.tolist()]"
_TOOLBOX_COLLECT = "H = protocol.estimate(R)"


FREQUENCY_PEERS: list[FrequencyPeer] = [
    FrequencyPeer(
        package="pure-ldp",
        requires=_PURE,
        protocol="grr",
        prepare="""\
from pure_ldp.frequency_oracles import DEClient, DEServer
client = DEClient(1.0, K, index_mapper=lambda x: x)
server = DEServer(1.0, K, index_mapper=lambda x: x)
""",
        device=_PURE_DEVICE,
        collect=_PURE_COLLECT,
        people=1_000_000,
    ),
    FrequencyPeer(
        package="pure-ldp",
        requires=_PURE,
        protocol="sue",
        prepare="""\
from pure_ldp.frequency_oracles import UEClient, UEServer
client = UEClient(1.0, K, use_oue=False, index_mapper=lambda x: x)
server = UEServer(1.0, K, use_oue=False, index_mapper=lambda x: x)
""",
        device=_PURE_DEVICE,
        collect=_PURE_COLLECT,
        people=30_000,
    ),
    FrequencyPeer(
        package="pure-ldp",
        requires=_PURE,
        protocol="oue",
        prepare="""\
from pure_ldp.frequency_oracles import UEClient, UEServer
client = UEClient(1.0, K, use_oue=True, index_mapper=lambda x: x)
server = UEServer(1.0, K, use_oue=True, index_mapper=lambda x: x)
""",
        device=_PURE_DEVICE,
        collect=_PURE_COLLECT,
        people=30_000,
    ),
    FrequencyPeer(
        package="pure-ldp",
        requires=_PURE,
        protocol="olh",
        prepare="""\
from pure_ldp.frequency_oracles import LHClient, LHServer
client = LHClient(1.0, K, use_olh=True, index_mapper=lambda x: x)
server = LHServer(1.0, K, use_olh=True, index_mapper=lambda x: x)
""",
        device=_PURE_DEVICE,
        collect=_PURE_COLLECT,
        people=2_000,
    ),
    FrequencyPeer(
        package="pure-ldp",
        requires=_PURE,
        protocol="hadamard-response",
        prepare="""\
from pure_ldp.frequency_oracles import HadamardResponseClient, HadamardResponseServer
server = HadamardResponseServer(1.0, K, index_mapper=lambda x: x)
client = HadamardResponseClient(1.0, K, server.get_hash_funcs(), index_mapper=lambda x: x)
""",
        device=_PURE_DEVICE,
        collect=_PURE_COLLECT,
        people=150_000,
    ),
    FrequencyPeer(
        package="multi-freq-ldpy",
        requires=_MULTI,
        protocol="grr",
        prepare="""\
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
GRR_Client(0, K, 1.0)
""",
        device="R = [GRR_Client(x, K, 1.0) for x in X.tolist()]",
        collect="H = GRR_Aggregator_MI(R, K, 1.0)",
        people=600_000,
    ),
    FrequencyPeer(
        package="multi-freq-ldpy",
        requires=_MULTI,
        protocol="sue",
        prepare="""\
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
UE_Client(0, K, 1.0, False)
""",
        device="R = [UE_Client(x, K, 1.0, False) for x in X.tolist()]",
        collect="H = UE_Aggregator_MI(R, 1.0, False)",
        people=40_000,
    ),
    FrequencyPeer(
        package="multi-freq-ldpy",
        requires=_MULTI,
        protocol="oue",
        prepare="""\
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
UE_Client(0, K, 1.0, True)
""",
        device="R = [UE_Client(x, K, 1.0, True) for x in X.tolist()]",
        collect="H = UE_Aggregator_MI(R, 1.0, True)",
        people=40_000,
    ),
    FrequencyPeer(
        package="multi-freq-ldpy",
        requires=_MULTI,
        protocol="olh",
        prepare="""\
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
LH_Client(0, K, 1.0, True)
""",
        device="R = [LH_Client(x, K, 1.0, True) for x in X.tolist()]",
        collect="H = LH_Aggregator_MI(R, K, 1.0, True)",
        people=2_000,
    ),
    FrequencyPeer(
        package="multi-freq-ldpy",
        requires=_MULTI,
        protocol="subset",
        prepare="""\
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
SS_Client(0, K, 1.0)
""",
        device="R = [SS_Client(x, K, 1.0) for x in X.tolist()]",
        collect="H = SS_Aggregator_MI(R, K, 1.0)",
        people=20_000,
    ),
    FrequencyPeer(
        package="ldp-toolbox",
        requires=_TOOLBOX,
        protocol="grr",
        prepare="""\
from ldp_toolbox.protocols.frequency.grr import GeneralizedRandomizedResponse
protocol = GeneralizedRandomizedResponse(K, 1.0)
protocol.obfuscate(0)
""",
        device=_TOOLBOX_DEVICE,
        collect=_TOOLBOX_COLLECT,
        people=1_000_000,
    ),
    FrequencyPeer(
        package="ldp-toolbox",
        requires=_TOOLBOX,
        protocol="sue",
        prepare="""\
from ldp_toolbox.protocols.frequency.ue import UnaryEncoding
protocol = UnaryEncoding(K, 1.0, optimal=False)
protocol.obfuscate(0)
""",
        device=_TOOLBOX_DEVICE,
        collect=_TOOLBOX_COLLECT,
        people=40_000,
    ),
    FrequencyPeer(
        package="ldp-toolbox",
        requires=_TOOLBOX,
        protocol="oue",
        prepare="""\
from ldp_toolbox.protocols.frequency.ue import UnaryEncoding
protocol = UnaryEncoding(K, 1.0, optimal=True)
protocol.obfuscate(0)
""",
        device=_TOOLBOX_DEVICE,
        collect=_TOOLBOX_COLLECT,
        people=40_000,
    ),
    FrequencyPeer(
        package="ldp-toolbox",
        requires=_TOOLBOX,
        protocol="olh",
        # The first estimate starts joblib's workers, one for each core.
        prepare="""\
from ldp_toolbox.protocols.frequency.lh import LocalHashing
protocol = LocalHashing(K, 1.0, optimal=True)
protocol.estimate([protocol.obfuscate(0) for _ in range(64)])
""",
        device=_TOOLBOX_DEVICE,
        collect=_TOOLBOX_COLLECT,
        people=2_000,
    ),
    FrequencyPeer(
        package="ldp-toolbox",
        requires=_TOOLBOX,
        protocol="subset",
        prepare="""\
from ldp_toolbox.protocols.frequency.ss import SubsetSelection
protocol = SubsetSelection(K, 1.0)
protocol.obfuscate(0)
""",
        device=_TOOLBOX_DEVICE,
        collect=_TOOLBOX_COLLECT,
        people=40_000,
    ),
]
