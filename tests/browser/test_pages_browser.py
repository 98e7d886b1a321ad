"""The pages in a real Chromium: a participant's whole way, an operator's, and how they look.

`SCREENSHOTS=docs/pages .venv/bin/python -m pytest tests/browser/test_pages_browser.py -k looks`
keeps the pictures of the documentation.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from murmuration import seeded_rng
from murmuration.campaign.question import Question
from murmuration.campaign.survey import utc_now
from murmuration.collector.access.participants import new_batch, tokens_of
from murmuration.collector.access.sessions import new_code
from murmuration.collector.store import open_store
from murmuration.definition import load
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support import collectors
from tests.support.accounts import campaign_of
from tests.support.between import HOST
from tests.support.browser import Watch, chromium, under
from tests.support.collectors import BINARY, Collector
from tests.support.places import ROOT

pytestmark = pytest.mark.slow

COMMUTE = """
name = "commute"
purpose = "How people get to work, and with which phone they read this."
epsilon = 2
people = 200_000
cohort = 1000
[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"
mechanism = "optimal"
[[attributes]]
name = "commute"
low = 0
high = 60
unit = "km"
missing = true
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
mechanism = "grr"
"""
SLEEP = """
name = "sleep"
purpose = "How long people sleep."
epsilon = 2
people = 50_000
cohort = 500
[levels]
careful = 0.5
open = 1.0
[[attributes]]
name = "snores"
kind = "category"
labels = ["yes", "no"]
mechanism = "grr"
"""
HOURS = """
name = "hours"
purpose = "How the hours of a night are spread."
epsilon = 2
cohort = 500
[[attributes]]
name = "sleep"
kind = "distribution"
low = 0
high = 12
unit = "hours"
bins = 16
"""
LAWS = (
    """
name = "laws"
purpose = "Laws for numbers."
epsilon = 3
strategy = "split"
"""
    + "".join(
        f"""
[[attributes]]
name = "{mechanism}"
low = 0
high = 10
mechanism = "{mechanism}"
"""
        for mechanism in ("duchi", "laplace", "three-output", "piecewise")
    )
    + """
[[attributes]]
name = "none"
low = 0
high = 10
missing = true
[[attributes]]
name = "graded"
kind = "graded"
low = 0
high = 10
edges = [5]
budgets = [0.2, 0.4]
[[attributes]]
name = "item"
kind = "category"
labels = ["a", "b", "c"]
mechanism = "subset"
"""
)
IMAGE = "<img src=x onerror='window.hacked = true'>"
HOSTILE = f"""
name = "hostile"
purpose = "{IMAGE}</h1><script>window.hacked = true</script>"
epsilon = 1
cohort = 100
[[attributes]]
name = "{IMAGE}"
kind = "category"
labels = ["{IMAGE}", "<b>bold</b>", "{{name}}"]
mechanism = "grr"
"""
TOWNS = f"""
name = "towns"
purpose = "Where people live."
epsilon = 2
cohort = 100
[[attributes]]
name = "town"
kind = "category"
labels = {json.dumps([f"Town {number}" for number in range(5000)])}
"""
FIFTY = """
name = "fifty"
purpose = "Fifty questions."
epsilon = 2
cohort = 100
""" + "".join(
    f"""
[[attributes]]
name = "question {number}"
low = 0
high = {number + 1}
mechanism = "duchi"
"""
    for number in range(50)
)
MOOD = """
name = "mood"
purpose = "How people feel, every day."
epsilon = 1
cohort = 100
[repeat]
rounds = 400
permanent = 2
values = 9
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "bad"]
"""
CAMPAIGNS = {
    "commute": (COMMUTE, 6_000),
    "sleep": (SLEEP, 3_000),
    "hours": (HOURS, 3_000),
    "hostile": (HOSTILE, 500),
    "towns": (TOWNS, 3_000),
    "fifty": (FIFTY, 10_000),
    "mood": (MOOD, 500),
}
AXE = ROOT / "web/pages/node_modules/axe-core/axe.min.js"
OFTEN = {
    "murmuration.server.streams.BEAT_SECONDS": 0.5,
    "murmuration.server.streams.TICK_SECONDS": 0.1,
}
"""Nobody waits for a second look."""
MOST = 5_000
"""Reports of one upload."""
PHONE = {"width": 375, "height": 812}
PAPER = {"width": 680, "height": 1000}
"""A4 less its margins."""


# --- a collector, a browser, people --------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=15_000)  # others may compute at the same time
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """One with reports in every campaign."""
    store = tmp_path_factory.mktemp("pages") / "store.db"
    texts = [text for text, _ in CAMPAIGNS.values()]
    with collectors.running(store, *texts, constants=OFTEN) as found:
        for name, (_, people) in CAMPAIGNS.items():
            arrive(found, name, people)
        yield found


def arrive(collector: Collector, name: str, people: int, seed: int = 1) -> None:
    """Let reports of new people arrive: like one another, not spread evenly."""
    campaign = campaign_of(CAMPAIGNS[name][0])
    crowd, rng = np.random.default_rng([seed, 16]), seeded_rng(seed)  # not the same stream
    columns = campaign.encode(
        {one.name: answers(one, crowd, people) for one in campaign.questions}, rng
    )
    levels = None if campaign.levels is None else crowd.choice(campaign.levels.names, people)
    rows = campaign.privatize(columns, rng, levels)
    for part in np.array_split(rows, people // MOST + 1):
        data = collectors.encoded(campaign, new_ids(len(part)), part, BINARY)
        assert collector.send(name, data, BINARY).json["stored"] == len(part)


def answers(question: Question, crowd: np.random.Generator, people: int) -> Any:
    if question.labels:
        share = 0.55 ** np.arange(len(question.labels))
        return crowd.choice(question.labels, people, p=share / share.sum()).tolist()
    return question.low + (question.high - question.low) * crowd.beta(2, 5, people)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A person's browser: storage of its own, empty."""
    found = browser.new_context(locale="en-GB", timezone_id="UTC")
    found.set_default_timeout(10_000)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


class Strict(Watch):
    """What a page asks for, and all that its console says is wrong."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        page.on("console", self._said)

    def _said(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.mistakes.append(said.text)

    def require_clean(self, collector: Collector) -> None:
        """Nothing went elsewhere, and nothing went wrong."""
        assert self.elsewhere(address(collector, "")) == []
        assert self.mistakes == []


def address(collector: Collector, path: str) -> str:
    return f"http://{HOST}:{collector.port}/{path}"


def link(collector: Collector, campaign: str = "") -> str:
    """A link as `murmur serve` prints it."""
    with closing(open_store(collector.store)) as store:
        return address(collector, f"sign-in?code={new_code(store, campaign=campaign)}")


def operator(page: Page, collector: Collector, campaign: str = "commute") -> None:
    """Sign in, and look at a campaign."""
    page.goto(link(collector))
    page.goto(address(collector, f"#{campaign}"))
    expect(page.locator(".card").first).to_be_visible()


def card(page: Page, name: str) -> Any:
    heading = page.get_by_role("heading", name=name, exact=True, level=2)
    return page.locator("article", has=heading)


def tile(page: Page, name: str) -> Any:
    return page.locator(".tile", has=page.get_by_text(name, exact=True)).locator(".large")


# --- a participant -------------------------------------------------------------------------------


def test_all_reports_of_a_repeated_question_are_bounded_by_what_is_permanent(
    page: Page, collector: Collector
) -> None:
    """Not by the campaign's limit, which pays for values that change: that would be 65,700,000."""
    page.goto(address(collector, "c/mood"))
    told = page.locator(".conclude")
    expect(told).to_contain_text("a report changes the odds by at most a factor of 2.72")
    together = "all your reports together change the odds by at most a factor of 7.39"
    expect(told).to_contain_text(f"{together}, as long as an answer stays as it is.")
    expect(told).not_to_contain_text("65,700,000")
    kept(page.screenshot(full_page=True), "repeated")


def test_a_participant_sends_and_sees_what_it_means(
    page: Page, context: BrowserContext, collector: Collector
) -> None:
    """Answers, what noise does to them, the report, what was spent, a file of it, erasure."""
    watch = Strict(page)
    before = collector.status("commute")["received"]
    page.goto(address(collector, "c/commute"))
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("How people get to work"))
    expect(
        page.get_by_text("a report changes the odds by at most a factor of 7.39")
    ).to_be_visible()
    page.get_by_role("radio", name="ios").check()
    # e^2 / (e^2 + 3) and 1 / (e^2 + 3)
    expect(page.get_by_text("about 71 would send this answer, “ios”")).to_be_visible()
    expect(page.get_by_text("other answer, about 10 would send the same")).to_be_visible()
    page.get_by_role("radio", name="other").check()
    expect(page.get_by_text("about 71 would send this answer, “other”")).to_be_visible()
    page.get_by_role("spinbutton", name="age").fill("20")
    young = page.locator(".waffles").inner_text()
    page.get_by_role("spinbutton", name="age").fill("90")
    expect(page.locator(".waffles")).not_to_have_text(young)
    page.get_by_role("checkbox", name="No answer").check()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("was counted"))).to_be_visible()
    assert collector.status("commute")["received"] == before + 1
    expect(page.get_by_text(re.compile("Your report says: (age|commute|phone), "))).to_be_visible()
    row = page.get_by_role("row", name=re.compile("commute"))
    expect(row).to_contain_text("2")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as a file").click()
    told = json.loads(download.value.path().read_text())
    (report,) = told["reports"]
    assert watch.bodies == [report["report"]]
    assert "secret" not in json.dumps(told)
    page.get_by_text("The report, as it was sent").click()
    page.get_by_role("button", name="Erase answers and reports").click()
    expect(page.get_by_text("Erased. What was spent, and the key, stay.")).to_be_visible()
    expect(page.get_by_text("The report, as it was sent")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", name=re.compile("You have answered"))).to_be_visible()
    expect(row).to_contain_text("2")
    assert context.cookies() == []
    assert "cookie" not in watch.told
    watch.require_clean(collector)


INVITED = collectors.one("invited", 'upload = "one-device"')


def test_a_link_with_a_token_is_for_one_device(browser: Browser, tmp_path: Path) -> None:
    """The token is in no address that is sent, and no longer in the one that is shown."""
    with collectors.running(tmp_path / "s.db", INVITED) as collector:
        with closing(open_store(collector.store)) as store:
            (token,) = tokens_of(new_batch(store, "invited"), 1)
        place = address(collector, "c/invited")
        heads: list[str] = []
        for said in ("was counted", "did not count your report \\(token-used\\)"):
            with closing(browser.new_context(locale="en-GB")) as context:
                page = context.new_page()
                watch = Strict(page)
                page.on("request", lambda one: heads.append(one.url))
                page.goto(f"{place}#token={token}")
                expect(page.get_by_role("radio", name="ios")).to_be_visible()
                assert page.url == place
                page.reload()  # in this tab it is still known
                page.get_by_role("radio", name="ios").check()
                page.get_by_role("button", name="Send", exact=True).click()
                expect(page.get_by_text(re.compile(said))).to_be_visible()
                assert page.evaluate("localStorage.length") == 0
                watch.require_clean(collector)
        assert not any(token in head for head in heads)
        with closing(browser.new_context(locale="en-GB")) as context:
            page = context.new_page()
            page.goto(place)
            page.get_by_role("radio", name="ios").check()
            page.get_by_role("button", name="Send", exact=True).click()
            expect(page.get_by_text("for invited devices only")).to_be_visible()
        assert collector.status("invited")["outcomes"] == {"stored": 1, "token-used": 1}


def test_what_no_crowd_sends_is_said_on_the_dashboard(page: Page, tmp_path: Path) -> None:
    text = collectors.one("phones")
    campaign = campaign_of(text)
    with collectors.running(tmp_path / "s.db", text, constants=OFTEN) as collector:
        _, rows = collectors.reports(campaign, 2000)
        body = collectors.encoded(campaign, new_ids(2000), rows, BINARY)
        assert collector.send("phones", body, BINARY).json["stored"] == 2000
        operator(page, collector, "phones")
        liars = page.locator("dt", has_text="1% who lie").locator("xpath=..")
        expect(liars).to_contain_text(re.compile(r"up to [0-9.]+%"))
        expect(page.get_by_text("Not what honest devices send")).to_have_count(0)
        lies = collectors.encoded(campaign, new_ids(9000), np.tile(rows[:1], (9000, 1)), BINARY)
        assert collector.send("phones", lies, BINARY).json["stored"] == 9000
        expect(page.get_by_text("Not what honest devices send").first).to_be_visible()


def test_the_picture_follows_the_level(page: Page, collector: Collector) -> None:
    page.goto(address(collector, "c/sleep"))
    page.get_by_role("radio", name="yes").check()
    expect(page.get_by_text("Choose a privacy level")).to_be_visible()
    page.get_by_role("radio", name=re.compile("careful")).check()
    expect(page.get_by_text("about 73 would send this answer")).to_be_visible()  # e / (e + 1)
    page.get_by_role("radio", name=re.compile("open")).check()
    expect(page.get_by_text("about 88 would send this answer")).to_be_visible()


def test_the_participant_page_is_small(page: Page, collector: Collector) -> None:
    """All that is transferred, but the document, as it travels: under 60 KB."""
    sizes: dict[str, int] = {}

    def finished(request: Any) -> None:
        sizes[request.url] = request.sizes()["responseBodySize"]

    page.on("requestfinished", finished)
    page.goto(address(collector, "c/commute"))
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    page.wait_for_load_state("networkidle")
    transferred = {url: size for url, size in sizes.items() if "/v1/" not in url}
    assert len(transferred) >= 4
    assert sum(transferred.values()) < 60_000


def test_the_proof_is_what_the_auditor_says(page: Page, collector: Collector) -> None:
    """Losses and the inputs that reach them, as Python finds them from the same integers."""
    watch = Strict(page)
    page.goto(address(collector, "c/commute/proof"))
    expect(page.get_by_text("3 of 3 rules keep their promise")).to_be_visible()
    campaign = campaign_of(COMMUTE)
    expect(page.locator(".whole")).to_contain_text(campaign.digest)
    expect(page.locator(".whole")).to_contain_text(repr(campaign.loss().epsilon))
    ages, _, phones = campaign.frame.cells
    age = page.locator(".rule", has=page.get_by_role("heading", name="age", exact=True))
    expect(age).to_contain_text(repr(ages.loss().epsilon))
    high, low = (f"{58 + 40 * x:.4g} years" for x in ages.loss().inputs)
    expect(age).to_contain_text(f"{high} against {low}")
    phone = page.locator(".rule", has=page.get_by_role("heading", name="phone", exact=True))
    ratio = phones.loss().ratio
    assert ratio is not None
    expect(phone).to_contain_text(f"ln({ratio.numerator} / {ratio.denominator})")
    watch.require_clean(collector)


def test_the_proof_names_two_answers_for_every_law_of_numbers(page: Page, tmp_path: Path) -> None:
    """Found again from the published integers; a page that did not find them would say so."""
    with collectors.running(tmp_path / "store.db", LAWS) as own:
        page.goto(address(own, "c/laws/proof"))
        expect(page.get_by_text("7 of 7 rules keep their promise")).to_be_visible()
        assert page.get_by_text("comparing all").count() == 6
        expect(
            page.get_by_text("any two different answers, such as “a” against “b”")
        ).to_be_visible()
        expect(page.get_by_text("has not looked for")).to_have_count(0)


def test_a_campaign_that_is_not_there_says_so(page: Page, collector: Collector) -> None:
    answer = page.goto(address(collector, "c/none"))
    assert answer is not None
    assert answer.status == 404
    expect(
        page.get_by_role("heading", name="There is no campaign called none here")
    ).to_be_visible()
    page.get_by_role("link", name="commute").click()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


# --- an operator ---------------------------------------------------------------------------------


def test_an_operator_watches_figures_sharpen(page: Page, collector: Collector) -> None:
    """The link, the figures, new reports without a reload, files, the way out."""
    watch = Strict(page)
    page.goto(link(collector))
    assert page.url == address(collector, "")
    page.goto(address(collector, "#commute"))
    age = card(page, "age")
    shown = age.locator(".figure")
    expect(shown).to_contain_text("years")
    (mean, *_) = collector.about("commute", "estimates").json["estimates"]
    assert float(shown.inner_text().split()[0]) == pytest.approx(mean["value"], abs=0.05)
    people = tile(page, "People")
    before = collector.about("commute", "estimates").json["people"]
    expect(people).to_have_text(f"{before:,}")
    arrive(collector, "commute", 5_000, seed=2)
    after = collector.about("commute", "estimates").json["people"]
    assert after >= before + 5_000
    expect(people).to_have_text(f"{after:,}")
    expect(age.get_by_role("img", name=re.compile("confidence sequence"))).to_be_visible()
    page.get_by_label("post-processed").check()
    expect(card(page, "phone")).to_contain_text("Share (post-processed)")
    for form, start in {"PNG": b"\x89PNG", "SVG": b"<svg"}.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download phone: {form}").click()
        assert download.value.path().read_bytes().startswith(start)
    for form, start in {"CSV": b"attribute,item,value", "Parquet": b"PAR1"}.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=form, exact=True).click()
        assert download.value.path().read_bytes().startswith(start)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    watch.require_clean(collector)
    page.goto(address(collector, ""))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_what_the_cohort_hides_is_shown_as_soon_as_it_may_be(page: Page, tmp_path: Path) -> None:
    with collectors.running(tmp_path / "store.db", COMMUTE) as own:
        page.goto(link(own))
        expect(card(page, "age")).to_contain_text("Hidden until 1,000 people have answered")
        assert page.locator(".figure").count() == 0
        arrive(own, "commute", 6_000)
        expect(card(page, "age").locator(".figure")).to_be_visible()


MOOD = """
name = "mood"
purpose = "How people are, week by week."
epsilon = 2.0
cohort = 100
[repeat]
permanent = 4.0
rounds = 52
every = "week"
grace = 9
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""


def test_a_trend_is_drawn_by_period(page: Page, tmp_path: Path) -> None:
    """Some weeks ago, so that no week can begin meanwhile; good is 4 in 5, then 1 in 5."""
    campaign, rng = campaign_of(MOOD), seeded_rng(1)
    last = (campaign.period_at(utc_now()) or 0) - 2
    watch = Strict(page)
    with collectors.running(tmp_path / "store.db", MOOD) as own:
        page.goto(link(own))
        expect(card(page, "mood")).to_contain_text("Hidden until 100 people have answered")
        for back, good in ((2, 0.8), (1, 0.8), (0, 0.2)):
            moods = ["good" if place % 10 < 10 * good else "bad" for place in range(500)]
            columns = campaign.encode({"mood": moods}, rng)
            rows = campaign.privatize(columns, rng, period=last - back)
            body = report.to_binary(campaign.form, new_ids(500, rng), rows)
            assert own.send("mood", body, report.BINARY).json["stored"] == 500
        chart = card(page, "mood").get_by_role("img", name=re.compile("figures with intervals"))
        expect(chart).to_be_visible()
        expect(chart.locator("circle")).to_have_count(9)
        names = [campaign.name_of(last - back) for back in (2, 1, 0)]
        expect(tile(page, "Has anything changed?")).to_have_text("Yes")
        expect(page.get_by_text(f"reported in {names[-1]}")).to_be_visible()
        expect(card(page, "mood")).to_contain_text(f"points since {names[-2]}")
        watch.require_clean(own)


def test_a_lost_collector_is_said_and_found_again(page: Page, tmp_path: Path) -> None:
    with collectors.running(tmp_path / "store.db", SLEEP) as own:
        page.goto(link(own))
        expect(page.locator(".card")).to_be_visible()
        own.kill()
        expect(page.get_by_text("Connection lost")).to_be_visible()
        own.start()
        arrive(own, "sleep", 1_500)
        expect(tile(page, "People")).to_have_text("1,500")


def test_a_session_that_is_ended_is_said(page: Page, tmp_path: Path) -> None:
    """`murmur token end STORE sign-in` ends what links have opened, also while it is watched."""
    with collectors.running(tmp_path / "store.db", SLEEP, constants=OFTEN) as own:
        page.goto(link(own))
        expect(page.locator(".card")).to_be_visible()
        with closing(open_store(own.store)) as store:
            store.expire_tokens("sign-in")
        expect(page.get_by_text("You are signed out.")).to_be_visible(timeout=15_000)


def test_pages_work_under_a_path_of_a_proxy(page: Page, tmp_path: Path) -> None:
    watch = Strict(page)
    with (
        collectors.running(tmp_path / "store.db", SLEEP, forwarded=True) as own,
        under("/a/study", own.port) as site,
    ):
        page.goto(f"{site}/sign-in?{link(own).partition('?')[2]}")
        expect(tile(page, "People")).to_have_text("0")
        arrive(own, "sleep", 1_500)
        expect(tile(page, "People")).to_have_text("1,500")
        assert {one["path"] for one in page.context.cookies()} == {"/a/study/"}
        page.get_by_role("link", name="Planner").click()
        expect(page.get_by_role("row", name=re.compile("^age"))).to_be_visible()
        page.goto(f"{site}/c/sleep")
        page.get_by_role("radio", name="no").check()
        page.get_by_role("radio", name=re.compile("open")).check()
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_role("heading", name=re.compile("was counted"))).to_be_visible()
        page.get_by_role("link", name="See the proof").click()
        expect(page.get_by_text("rules keep their promise")).to_be_visible()
        assert watch.elsewhere(site) == []
        assert watch.mistakes == []


def test_signing_in_is_refused_with_words(page: Page, collector: Collector) -> None:
    """Without a link, with one that was used, with one that never was."""
    for path in ("", "plan"):
        assert page.goto(address(collector, path)).status == 401  # type: ignore[union-attr]
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    once = link(collector)
    page.goto(once)
    expect(page.locator(".tiles")).to_be_visible()
    page.context.clear_cookies()
    for wrong in (once, address(collector, "sign-in?code=none")):
        assert page.goto(wrong).status == 403  # type: ignore[union-attr]
        expect(page.get_by_role("alert")).to_contain_text("This link cannot be used")
        assert "code" not in page.url
    page.get_by_role("link", name="commute").click()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_a_session_for_one_campaign_sees_no_other(page: Page, collector: Collector) -> None:
    page.goto(link(collector, "sleep"))
    expect(page.get_by_role("heading", level=1)).to_have_text("How long people sleep.")
    page.goto(address(collector, "#commute"))
    expect(page.get_by_role("heading", level=1)).to_have_text("How long people sleep.")
    expect(card(page, "snores")).to_contain_text("careful (epsilon 1)")


# --- much, and hostile ---------------------------------------------------------------------------


def test_five_thousand_labels_are_the_largest_and_a_search(
    page: Page, collector: Collector
) -> None:
    watch = Strict(page)
    operator(page, collector, "towns")
    town = card(page, "town")
    expect(town).to_contain_text("The 10 largest; 4,990 more are")
    assert town.locator("svg").first.locator("text.name").count() == 20
    town.get_by_role("searchbox").fill("Town 4321")
    expect(town.get_by_role("status")).to_contain_text("1 labels contain")
    expect(town.get_by_text("Town 4321", exact=True)).to_be_visible()
    town.get_by_role("searchbox").fill("Village")
    expect(town.get_by_role("status")).to_contain_text("No label contains “Village”")
    watch.require_clean(collector)


def test_fifty_attributes_are_found(page: Page, collector: Collector) -> None:
    operator(page, collector, "fifty")
    assert page.locator(".card").count() == 50
    page.get_by_label("Find an attribute").fill("question 4")
    expect(page.locator(".card:visible")).to_have_count(11)
    took = page.evaluate(
        "() => new Promise((done) => { const start = performance.now();"
        " requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))); })"
    )
    assert took < 1_000


def test_hostile_names_are_only_text(page: Page, collector: Collector) -> None:
    watch = Strict(page)
    pages = ["c/hostile", "c/hostile/proof"]
    for path in pages:
        page.goto(address(collector, path))
        expect(page.get_by_text(IMAGE).first).to_be_visible()
    operator(page, collector, "hostile")
    expect(page.get_by_role("heading", name=IMAGE, exact=True)).to_be_visible()
    for summary in page.locator("summary:visible").all():
        summary.click()
    assert page.evaluate("window.hacked") is None
    watch.require_clean(collector)


# --- the planner ---------------------------------------------------------------------------------


def test_the_planner_gives_a_file_that_a_collector_takes(page: Page, collector: Collector) -> None:
    watch = Strict(page)
    page.goto(link(collector))
    page.get_by_role("link", name="Planner").click()
    expect(page.get_by_role("row", name=re.compile("^age"))).to_contain_text("years")
    page.get_by_label("Name", exact=True).first.fill("height")
    page.get_by_label("To", exact=True).first.fill("9")
    expect(page.get_by_role("alert")).to_contain_text("from a lower to a higher number")
    page.get_by_label("To", exact=True).first.fill("220")
    expect(page.get_by_role("row", name=re.compile("^height"))).to_be_visible()
    page.get_by_label("People who will take part").fill("20000")
    page.get_by_role("button", name="Add an attribute").click()
    page.keyboard.type("pet")
    last = page.get_by_role("group", name="Attribute 3")
    last.get_by_label("Kind").select_option("category")
    last.get_by_label("Labels, one per line").fill("cat\ndog\nnone")
    expect(page.get_by_role("row", name=re.compile("^pet"))).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the campaign file").click()
    campaign = load.parse(download.value.path().read_text())
    assert [one.name for one in campaign.questions] == ["height", "phone", "pet"]
    watch.require_clean(collector)


# --- everybody -----------------------------------------------------------------------------------


def findings(page: Page) -> list[str]:
    """What axe finds that is serious or worse."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 10
    bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {[node['html'][:200] for node in one['nodes']]}" for one in bad]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, collector: Collector, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme)
    try:
        page.goto(address(collector, "sign-in?code=wrong"))
        expect(page.get_by_role("alert")).to_be_visible()
        assert findings(page) == []
        operator(page, collector)
        for summary in page.locator("summary:visible").all():
            summary.click()
        assert findings(page) == []
        page.goto(address(collector, "plan"))
        expect(page.get_by_role("row", name=re.compile("^age"))).to_be_visible()
        assert findings(page) == []
        page.goto(address(collector, "c/commute/proof"))
        expect(page.get_by_text("rules keep their promise")).to_be_visible()
        assert findings(page) == []
        page.goto(address(collector, "c/commute"))
        page.get_by_role("radio", name="ios").check()
        expect(page.locator(".waffles")).to_be_visible()
        assert findings(page) == []
    finally:
        page.close()


def reach(page: Page, name: str, most: int = 40) -> None:
    """Press Tab until something of that name has the focus."""
    deepest = (
        "() => { let one = document.activeElement;"
        " while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;"
        " const label = one?.labels?.[0]?.textContent ?? '';"
        " return [label, one?.textContent, one?.getAttribute('aria-label')].join('|'); }"
    )
    for _ in range(most):
        page.keyboard.press("Tab")
        if name in page.evaluate(deepest):
            return
    raise AssertionError(f"the keyboard does not reach {name}")


def test_a_keyboard_is_enough(page: Page, collector: Collector) -> None:
    """To answer and send, to read the proof, and to look at charts as a table."""
    page.goto(address(collector, "c/sleep"))
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    reach(page, "yes")
    page.keyboard.press("Space")
    reach(page, "careful")
    page.keyboard.press("Space")
    reach(page, "Send")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("was counted"))).to_be_focused()
    reach(page, "See the proof")
    page.keyboard.press("Enter")
    expect(page.get_by_text("rules keep their promise")).to_be_visible()
    operator(page, collector, "sleep")
    reach(page, "As a table")
    page.keyboard.press("Enter")
    expect(page.get_by_role("rowheader", name="yes")).to_be_visible()


# --- how they look -------------------------------------------------------------------------------

FORMS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True},
    "print": {"viewport": PAPER},
}


def kept(picture: bytes, name: str) -> None:
    """Keep a screenshot, with few colours, where one asks for it."""
    folder = os.environ.get("SCREENSHOTS")
    if not folder:
        return
    from PIL import Image

    Path(folder).mkdir(parents=True, exist_ok=True)
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(48, dither=Image.Dither.NONE)
    few.save(Path(folder, f"{name}.png"), optimize=True)


@pytest.mark.parametrize("form", FORMS)
def test_how_a_page_looks(browser: Browser, collector: Collector, form: str) -> None:
    """Every page, in every form: nothing is wider than the screen."""
    context = browser.new_context(locale="en-GB", timezone_id="UTC", **FORMS[form])
    page = context.new_page()
    if form == "print":
        page.emulate_media(media="print")

    def look(name: str) -> None:
        kept(page.screenshot(full_page=True), f"{name}-{form}")
        width, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= screen, name

    page.goto(address(collector, "sign-in"))
    expect(page.get_by_role("link", name="commute")).to_be_visible()
    look("sign-in")
    operator(page, collector)
    expect(card(page, "age").get_by_role("img").first).to_be_visible()
    for turn in range(14 if "SCREENSHOTS" in os.environ else 0):  # so that one sees it sharpen
        arrive(collector, "commute", 3_000, seed=turn + 100)
        people = collector.status("commute")["people"]
        expect(tile(page, "People")).to_have_text(f"{people:,}")
    look("dashboard")
    page.goto(address(collector, "#towns"))
    expect(card(page, "town")).to_be_visible()
    look("labels")
    page.goto(address(collector, "plan"))
    expect(page.get_by_role("row", name=re.compile("^age"))).to_be_visible()
    look("plan")
    page.goto(address(collector, "c/commute/proof"))
    expect(page.get_by_text("rules keep their promise")).to_be_visible()
    look("proof")
    page.goto(address(collector, "c/commute"))
    page.get_by_role("spinbutton", name="age").fill("41")
    page.get_by_role("radio", name="ios").check()
    expect(page.locator(".waffles")).to_be_visible()
    look("participant")
    context.close()
