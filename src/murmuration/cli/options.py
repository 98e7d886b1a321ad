"""Arguments and options that several commands have, each with one meaning and one line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# --- what is printed and drawn -------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[
    Path | None, typer.Option(help="Save a plot: a .png, .svg or .pdf file.", metavar="FILE")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]

# --- how a CSV file is written -------------------------------------------------------------------

Delimiter = Annotated[
    str,
    typer.Option(help="Between the fields of a CSV file: one character, or tab. Left out: found."),
]
Encoding = Annotated[
    str, typer.Option(help="Of a CSV file, as latin-1. Left out: UTF-8, or UTF-16 with its mark.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether line 1 names the columns; else they are c1, c2, ..."
    ),
]
ColumnNames = Annotated[
    str, typer.Option("--columns", help="Their names with commas between, for --no-header.")
]
Decimal = Annotated[
    str,
    typer.Option(help="What stands before a fraction: . or ,. Left out: found.", metavar="MARK"),
]
AllowMisfits = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="The share of an attribute's values that may not fit.",
        metavar="SHARE",
    ),
]

# --- stores and collectors -----------------------------------------------------------------------

STORE_HELP = "sqlite:///FILE (or just a path), or postgresql://..."
StoreArgument = Annotated[str, typer.Argument(help=f"The store: {STORE_HELP}.")]
Source = Annotated[
    str,
    typer.Argument(
        help="A store (a file, or postgresql://...), a collector's address (http...), or a file "
        "of `murmur tally`."
    ),
]
LiveSource = Annotated[
    str,
    typer.Argument(
        help="A store (a file, or postgresql://...), or a collector's address (http...)."
    ),
]
"""Where there is more than tallies: a status, a model."""
ONE_CAMPAIGN = "Its name, if there are several."
CampaignArgument = Annotated[str, typer.Argument(help=ONE_CAMPAIGN)]
CampaignOption = Annotated[str, typer.Option("--campaign", help=ONE_CAMPAIGN)]
TokenOption = Annotated[
    str,
    typer.Option(
        envvar="MURMUR_TOKEN", help="Better in the variable: a command line is seen by others."
    ),
]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="Allow plain HTTP to another machine.")
]

# --- devices that are played from a file ---------------------------------------------------------

Batch = Annotated[int, typer.Option(min=1, help="Reports in one upload.")]
Connections = Annotated[int, typer.Option(min=1, max=64, help="Connections at once.")]
RowLimit = Annotated[int | None, typer.Option(min=1, help="Only so many rows, from the first on.")]
Secret = Annotated[
    Path | None,
    typer.Option(help="A file with the secret that the devices' keys follow from; made if new."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Participants' tokens, a line for each row, where each device has its own.",
    ),
]

# --- privacy and simulations ---------------------------------------------------------------------

Epsilon = Annotated[float, typer.Option(help="The privacy of each person, in all.")]
Epsilons = Annotated[str, typer.Option(help="A list with commas between, such as 0.5,1,2.")]
Edges = Annotated[
    str, typer.Option(help="Where ranges meet, in [-1, 1] or in the units of --low and --high.")
]
Semantics = Annotated[
    str,
    typer.Option(
        help="What two values in different ranges may cost: max (the larger budget), min (the "
        "smaller), or a matrix as 2,1;1,1."
    ),
]
Low = Annotated[float | None, typer.Option(help="Lower end of the range.")]
High = Annotated[float | None, typer.Option(help="Upper end of the range.")]
Mechanisms = Annotated[
    list[str] | None, typer.Option("--mechanism", help="Only this one; may be repeated.")
]
CrowdSize = Annotated[int, typer.Option(min=1, help="How many, of a named crowd.")]
Runs = Annotated[int, typer.Option(min=2, help="Collections to simulate per line.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same result.")]
PeopleSeed = Annotated[int, typer.Option(min=0, help="Of the simulated people, not of the noise.")]
