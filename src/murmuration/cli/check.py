"""`murmur check`: whether a campaign file is right, and what it asks people to give away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.check_model import TrainingPage
from murmuration.cli.check_survey import SurveyPage
from murmuration.cli.fit import MOST_MISFITS, measure, require_fitting, show
from murmuration.cli.options import (
    AllowMisfits,
    ColumnNames,
    Decimal,
    Delimiter,
    Encoding,
    Header,
    Json,
)
from murmuration.cli.output import emit, emit_json, errors, save
from murmuration.cli.tables import Form, open_table
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.errors import CampaignError, ParameterError, PromiseError
from murmuration.training.campaign import TrainingCampaign


class Page(Protocol):
    """What is said about a campaign of one kind."""

    def __init__(self, campaign: Any) -> None:
        """Work out what it reveals, and run the audit on every law."""

    @property
    def passed(self) -> bool:
        """Whether every law keeps its promise, and its sampler keeps to the law."""

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""

    def show(self) -> None:
        """Print it in plain words."""


PAGES: dict[str, type[Page]] = {
    SurveyCampaign.kind: SurveyPage,
    TrainingCampaign.kind: TrainingPage,
}


def check(
    file: Annotated[Path, typer.Argument(help="A campaign file.")] = Path("campaign.toml"),
    document: Annotated[
        str, typer.Option(help="Write what devices will get there; - prints it.", metavar="FILE")
    ] = "",
    data: Annotated[
        Path | None, typer.Option(help="A CSV or Parquet file: say how its values fit, too.")
    ] = None,
    allow_misfits: AllowMisfits = MOST_MISFITS,
    delimiter: Delimiter = "",
    encoding: Encoding = "",
    header: Header = None,
    columns: ColumnNames = "",
    decimal: Decimal = "",
    as_json: Json = False,
) -> None:
    """Check a campaign file, audit its laws, and say in plain words what each person reveals.

    Mistakes are told together, each with its line: keys and types, then values, then laws. Exit
    code 1 if the audit refuses it, 2 if there is a mistake in it, or if more than 1% of an
    attribute's values in --data do not fit.
    """
    form = Form.said(delimiter, encoding, header, columns, decimal)
    if document == "-" and as_json:
        raise ParameterError("--document - prints JSON already: leave --json out")
    try:
        with errors.status("building every law"):
            campaign = campaign_file.load(file)
    except CampaignError as problem:
        if not as_json:
            raise
        refused = isinstance(problem, PromiseError)
        mistakes = [{"line": each.line, **_said(each)} for each in (problem, *problem.also)]
        emit_json({"passed": False, "refused": refused, **mistakes[0], "mistakes": mistakes})
        raise typer.Exit(1 if refused else 2) from None
    if document == "-":
        emit(campaign_document.pretty(campaign_document.publish(campaign)) + "\n")
        return
    with errors.status("auditing every law"):
        page = PAGES[campaign.kind](campaign)
    fits = [] if data is None else measure(campaign, open_table(data, form))
    if as_json:
        emit_json(page.data() | ({"fit": {fit.name: fit.data for fit in fits}} if fits else {}))
    else:
        page.show()
        if fits:
            show(fits, allow_misfits)
    if document:
        _write(campaign, Path(document))
    if not page.passed:
        raise typer.Exit(1)
    require_fitting(fits, allow_misfits)


def _write(campaign: Campaign, path: Path) -> None:
    """Write what devices will get."""
    save(campaign_document.publish(campaign), path, "document")


def _said(problem: CampaignError) -> dict[str, Any]:
    return {"file": problem.source, "message": str(problem)}
