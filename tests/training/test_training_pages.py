"""A training in a real browser: the dashboard draws it, and a person takes part once."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.between import HOST
from tests.support.browser import chromium
from tests.support.collectors import running
from tests.support.training_cases import LOANS, People, loans, open_round, rounds_of, sent, trained


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_training_in_a_browser(tmp_path: Path) -> None:
    with running(tmp_path / "store.db", LOANS, measured=False) as collector, chromium() as browser:
        home, people = f"http://{HOST}:{collector.port}", People(loans())
        for found in rounds_of(collector, loans()):
            if found.number == 6:
                break
            sent(collector, found, *people.reports(found, found.size))
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.goto(f"{home}/sign-in?code={collector.code()}")
        expect(page.get_by_role("heading", name="logistic model of paid")).to_be_visible()
        expect(page.get_by_text("round 6", exact=True)).to_be_visible()
        curve = page.get_by_role("img", name="Learning curve")
        expect(curve).to_be_visible()
        expect(page.get_by_text("Asked last, of people who have no part")).to_be_visible()
        taking = browser.new_page()
        taking.goto(f"{home}/c/loans/proof")  # on to the page that has it
        assert taking.url == f"{home}/c/loans"
        taking.get_by_label("age").fill("44")
        taking.get_by_label("home").select_option("own")
        taking.get_by_label("paid").select_option("yes")
        taking.get_by_role("button", name="Take part").click()
        expect(taking.get_by_text("Your answer counts.")).to_be_visible()
        round_six = open_round(collector, loans())
        assert round_six is not None
        so_far = page.locator("p", has_text=f"1 of {round_six.size:,} people")
        expect(so_far).to_be_visible(timeout=20_000)
        trained(collector, people)
        expect(page.get_by_text("ended after round 11")).to_be_visible(timeout=20_000)
        expect(page.get_by_text("share of people whose class is told right")).to_be_visible()
        expect(page.get_by_role("cell", name="age (years)")).to_be_visible()
        taking.reload()
        taking.get_by_label("age").fill("45")
        taking.get_by_label("home").select_option("own")
        taking.get_by_label("paid").select_option("yes")
        taking.get_by_role("button", name="Take part").click()
        expect(taking.get_by_text("It had been made before")).to_be_visible()
        assert collector.status("loans")["outcomes"]["stored"] > 0
        assert not problems
