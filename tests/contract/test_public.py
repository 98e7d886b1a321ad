"""The public names: what `import murmuration` gives, and what it does not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import murmuration

NAMES = [
    "AnswerError",
    "Attribute",
    "Audit",
    "BudgetError",
    "Campaign",
    "Client",
    "Distribution",
    "Estimate",
    "Figure",
    "Figures",
    "FrequencyEstimate",
    "InUnits",
    "Labels",
    "Ledger",
    "Levels",
    "Loss",
    "Mechanism",
    "MisfitWarning",
    "MurmurationError",
    "SendError",
    "Survey",
    "SurveyCampaign",
    "Tally",
    "Task",
    "TrainingCampaign",
    "TupleEstimate",
    "admit",
    "audit_mechanism",
    "base_cut",
    "bayes",
    "combine_levels",
    "figures",
    "list_mechanisms",
    "load",
    "mechanism",
    "open",
    "plan",
    "project_simplex",
    "seeded_rng",
    "system_rng",
    "to_domain",
]
SOURCE = Path(murmuration.__file__)


def test_the_public_names_are_these() -> None:
    assert murmuration.__all__ == NAMES == sorted(NAMES)
    assert list(murmuration._HOMES) == NAMES
    for name in NAMES:
        assert not isinstance(getattr(murmuration, name), ModuleType)
    assert set(NAMES) <= set(dir(murmuration))


def test_type_checkers_see_the_same_names() -> None:
    """What is imported for them is what is imported when it is used."""
    tree = ast.parse(SOURCE.read_text())
    checked = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("murmuration."):
            for alias in node.names:
                there = f":{alias.name}" if alias.asname else ""
                home = (node.module or "").removeprefix("murmuration.")
                checked[alias.asname or alias.name] = f"{home}{there}"
    assert checked == murmuration._HOMES
    assert SOURCE.with_name("py.typed").exists()


def test_no_package_hides_behind_a_name() -> None:
    folders = {path.parent.name for path in SOURCE.parent.glob("*/__init__.py")}
    assert not folders & set(NAMES)


def test_importing_it_loads_next_to_nothing() -> None:
    """Nor does a mechanism load what draws on terminals, solves programs or serves."""
    script = (
        "import sys, murmuration;"
        "assert not {'numpy', 'rich', 'typer', 'scipy'} & set(sys.modules);"
        "murmuration.mechanism('duchi', epsilon=1.0).privatize([0.5], murmuration.system_rng());"
        "loaded = {name.split('.')[0] for name in sys.modules};"
        "assert not {'rich', 'typer', 'starlette', 'sklearn', 'matplotlib', 'pyarrow'} & loaded;"
        "solvers = {'murmuration.mechanisms.solve.linear', 'scipy.optimize'};"
        "assert not solvers & set(sys.modules), solvers & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
