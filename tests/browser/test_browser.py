"""The client in a real Chromium: the element on a page of another site, and the library."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from murmuration import Client, seeded_rng
from murmuration.audit.exact import chi_square
from murmuration.definition.document import read
from tests.support import collectors
from tests.support.between import HOST
from tests.support.browser import CLIENT, Site, Watch, chromium, embedding
from tests.support.collectors import Collector

pytestmark = pytest.mark.slow

COMMUTE = """
name = "commute"
purpose = "How people get to work, and with which phone they read this."
epsilon = 2
cohort = 100
origins = ["{origin}"]
[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"
mechanism = "optimal"
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
mechanism = "grr"
[[attributes]]
name = "commute"
low = 0
high = 60
unit = "km"
missing = true
mechanism = "optimal"
"""
COSTLY = """
name = "{name}"
purpose = "One question."
epsilon = {epsilon}
cohort = 100
origins = ["{origin}"]
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
mechanism = "grr"
"""
IMAGE = "<img src=x onerror='window.hacked = true'>"
HOSTILE = f"""
name = "hostile"
purpose = "{IMAGE}</h2><script>window.hacked = true</script>"
epsilon = 1
cohort = 100
origins = ["{{origin}}"]
[[attributes]]
name = "{IMAGE}"
kind = "category"
labels = ["{IMAGE}", "<b>bold</b>", "{{{{name}}}}"]
mechanism = "grr"
"""
FORMS = """
name = "forms"
purpose = "Every kind of control."
epsilon = 3
cohort = 100
origins = ["{origin}"]
strategy = "split"
[levels]
low = 0.5
high = 1.0
[[attributes]]
name = "age"
low = -10
high = 110
missing = true
[[attributes]]
name = "country"
kind = "category"
labels = {countries}
mechanism = "grr"
[[attributes]]
name = "town"
kind = "category"
labels = {towns}
missing = true
mechanism = "subset"
"""
CHOSEN = """
name = "chosen"
purpose = "What a person did not choose is not sent."
epsilon = 2
cohort = 100
origins = ["{origin}"]
[check_fit]
error = 0.02
[[attributes]]
name = "age"
low = 0
high = 110
missing = true
outside = "clamp"
markers = ["99"]
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
"""
DAILY = """
name = "daily"
purpose = "A question that is asked again."
epsilon = 0.5
cohort = 100
origins = ["{origin}"]
[repeat]
permanent = 1
rounds = 3
values = 2
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
missing = true
"""
LAWS = """
name = "laws"
purpose = "To count what is drawn."
epsilon = 2
cohort = 100
origins = ["{origin}"]
strategy = "split"
[[attributes]]
name = "number"
low = -1
high = 1
mechanism = "optimal"
[[attributes]]
name = "item"
kind = "category"
labels = ["a", "b", "c", "d", "e", "f"]
mechanism = "subset"
"""
COUNTRIES = [f"Country {number}" for number in range(30)]
TOWNS = [f"Town {number}" for number in range(1000)]


def costly(name: str, epsilon: float, origin: str) -> str:
    return COSTLY.format(name=name, epsilon=epsilon, origin=origin)


# --- a browser, a site, a collector --------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as found:
        yield found


@pytest.fixture(scope="module")
def collector(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """One that serves all campaigns whose collector is not stopped on the way."""
    origin = site.origin
    campaigns = [
        COMMUTE.format(origin=origin),
        HOSTILE.format(origin=origin),
        FORMS.format(origin=origin, countries=json.dumps(COUNTRIES), towns=json.dumps(TOWNS)),
        *(costly(f"four-{turn}", 4, origin) for turn in range(3)),
        costly("five", 5, origin),
        CHOSEN.format(origin=origin),
        DAILY.format(origin=origin),
        LAWS.format(origin=origin),
        costly("invited", 1, origin).replace("epsilon", 'upload = "token"\nepsilon', 1),
        costly("elsewhere", 1, "https://app.example"),
    ]
    store = tmp_path_factory.mktemp("browser") / "store.db"
    with collectors.running(store, *campaigns) as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A person's browser: storage of its own, empty."""
    found = browser.new_context(locale="en-GB")
    found.set_default_timeout(10_000)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def shown(page: Page, site: Site, collector: Collector, name: str, **options: Any) -> Watch:
    """Open a page of the site that embeds a campaign."""
    watch = Watch(page)
    policy = options.pop("policy", "")
    body = options.pop("body", "")
    at = collector.collection(name).url
    text = embedding(at, f"http://{HOST}:{collector.port}{CLIENT}", options, body)
    page.goto(site.add(f"/{name}", text, policy))
    return watch


def received(collector: Collector, name: str) -> int:
    return collector.collection(name).received


def answer(page: Page, age: int = 41, phone: str = "ios") -> None:
    """Fill in the questions of COMMUTE."""
    page.get_by_role("spinbutton", name="age").fill(str(age))
    page.get_by_role("radio", name=phone).check()
    page.get_by_role("checkbox", name="No answer").check()


def send(page: Page) -> None:
    page.get_by_role("button", name="Send", exact=True).click()


def thanked(page: Page, words: str = "Thank you") -> None:
    expect(page.get_by_role("heading", name=re.compile(words))).to_be_visible()


def ledger(page: Page, collector: Collector, work: str) -> Any:
    """What a line of script finds in the ledger of the page's site."""
    url = f"http://{HOST}:{collector.port}{CLIENT}"
    return page.evaluate(
        "async ([url, work]) => { const library = await import(url);"
        " const ledger = new library.Ledger(new library.BrowserStore());"
        " return await new Function('ledger', 'library', `return ${work}`)(ledger, library); }",
        [url, work],
    )


def entries(page: Page, collector: Collector) -> list[dict[str, Any]]:
    return list(ledger(page, collector, "ledger.entries()"))


# --- the element ---------------------------------------------------------------------------------


def test_a_page_of_another_site_takes_part(page: Page, site: Site, collector: Collector) -> None:
    """Questions, what will be sent, the report, thanks; after a reload it was answered."""
    before = received(collector, "commute")
    watch = shown(page, site, collector, "commute")
    page.evaluate("addEventListener('murmur-sent', (event) => { window.receipt = event.detail; })")
    answer(page)
    page.get_by_text("What will be sent").click()
    expect(page.get_by_text("An example, drawn now and thrown away")).to_be_visible()
    example = json.loads(page.locator("pre").inner_text())
    assert received(collector, "commute") == before
    assert entries(page, collector) == []
    send(page)
    thanked(page, "was counted")
    page.get_by_text("The report, as it was sent").click()
    sent = page.locator("pre").inner_text()
    assert watch.bodies == [sent]
    assert json.loads(sent)["id"] != example["id"]
    receipt = page.evaluate("window.receipt")
    assert (receipt["outcome"], receipt["epsilon"], receipt["report"]) == ("stored", 2, sent)
    kept = page.evaluate(BOOK)
    assert len(kept["secret"]) == 32
    assert "ios" not in json.dumps(kept)
    page.reload()
    thanked(page, "You have answered")
    assert received(collector, "commute") == before + 1
    ours = site.origin, f"http://{HOST}:{collector.port}/"
    assert watch.elsewhere(*ours) == []
    assert not {"cookie", "referer", "authorization"} & watch.told
    assert watch.mistakes == []
    page.get_by_text("Privacy spent").click()
    expect(
        page.get_by_text(f"counted for {site.origin.removeprefix('http://')} alone")
    ).to_be_visible()


def test_a_document_is_no_cookie(context: BrowserContext, site: Site, collector: Collector) -> None:
    """A tag that a browser sent back would tell the collector who comes again."""
    fetched = []
    for visit in range(2):
        page = context.new_page()
        page.on("response", lambda answer: fetched.append((answer.status, answer.request)))
        shown(page, site, collector, "commute")
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        documents = [one for one in fetched if one[1].url.endswith("/v1/campaigns/commute")]
        assert len(documents) == visit + 1
    for status, request in documents:
        assert status == 200
        assert "if-none-match" not in request.all_headers()


def test_what_is_missing_is_asked_for(page: Page, site: Site, collector: Collector) -> None:
    """The first question without an answer has the focus, and says so to screen readers."""
    watch = shown(page, site, collector, "commute")
    send(page)
    age = page.get_by_role("spinbutton", name="age")
    expect(age).to_be_focused()
    expect(age).to_have_attribute("aria-invalid", "true")
    expect(age).to_have_accessible_description(re.compile("Please answer this"))
    age.press_sequentially("e")
    send(page)
    expect(age).to_have_accessible_description(re.compile("Please enter a number"))
    assert watch.bodies == []


def test_nothing_is_sent_that_a_person_did_not_choose(
    page: Page, site: Site, collector: Collector
) -> None:
    """What would be clamped, spread or no answer is asked for again; checks are not asked."""
    watch = shown(page, site, collector, "chosen")
    age = page.get_by_role("spinbutton", name="age")
    expect(page.get_by_text("fit", exact=False)).to_have_count(0)
    for typed in ("141", "-1", "99"):  # the last one is a text that stands for no answer
        age.fill(typed)
        page.get_by_role("radio", name="ios").check()
        send(page)
        expect(age).to_have_attribute("aria-invalid", "true")
    age.fill("41")
    page.get_by_role("radio", name="ios").evaluate("one => { one.checked = false; }")
    send(page)
    expect(page.get_by_text("Please answer this")).to_be_visible()
    assert watch.bodies == []
    page.get_by_role("radio", name="ios").check()
    send(page)
    thanked(page)
    assert len(watch.bodies) == 1
    assert ledger(page, collector, "ledger.misfits()") == []


def test_a_report_that_did_not_arrive_is_sent_again_as_it_is(
    context: BrowserContext, site: Site, tmp_path: Path
) -> None:
    with collectors.running(tmp_path / "store.db", costly("phones", 1, site.origin)) as own:
        page = context.new_page()
        watch = shown(page, site, own, "phones")
        page.get_by_role("radio", name="ios").check()
        own.kill()
        send(page)
        thanked(page, "kept on this device")
        assert [entry["outcome"] for entry in page.evaluate(BOOK)["entries"]] == [None]
        expect(page.locator("pre")).to_have_count(0)
        own.start()
        page.reload()
        thanked(page, "You have answered")
        assert len(set(watch.bodies)) == 1
        assert len(watch.bodies) > 1
        assert own.collection("phones").received == 1
        assert [entry["outcome"] for entry in entries(page, own)] == ["stored"]


BOOK = """
new Promise((resolve) => {
  const asked = indexedDB.open("murmuration");
  asked.onsuccess = () => {
    const found = asked.result.transaction("book").objectStore("book").get("book");
    found.onsuccess = () => {
      asked.result.close();
      resolve({ ...found.result, secret: [...found.result.secret] });
    };
  };
})
"""
"""What the browser holds, also while nobody serves the library."""


FULL_AFTER_SENDING = """
const send = fetch;
globalThis.fetch = async (...request) => {
  const answer = await send(...request);
  const full = () => { throw new DOMException("full", "QuotaExceededError"); };
  if (request[1]?.method === "POST" && !window.mended) IDBObjectStore.prototype.put = full;
  return answer;
};
window.put = IDBObjectStore.prototype.put;
"""


def test_a_ledger_that_fails_after_the_report_left(
    page: Page, site: Site, collector: Collector
) -> None:
    """Nobody is told that nothing was sent, or asked again; the same bytes settle it."""
    before = received(collector, "commute")
    page.add_init_script(FULL_AFTER_SENDING)
    watch = shown(page, site, collector, "commute")
    answer(page)
    send(page)
    thanked(page, "may not have arrived")
    assert received(collector, "commute") == before + 1
    expect(page.get_by_role("button", name="Send", exact=True)).to_have_count(0)
    assert "Nothing was sent" not in page.locator("murmur-campaign").inner_text()
    page.evaluate("() => { window.mended = true; IDBObjectStore.prototype.put = window.put; }")
    page.get_by_role("button", name="Try again").click()
    thanked(page, "was counted")
    assert (len(watch.bodies), len(set(watch.bodies))) == (2, 1)


def test_a_page_without_a_network_sends_when_there_is_one(
    context: BrowserContext, site: Site, collector: Collector
) -> None:
    """Nobody has to click: the browser says that it is online."""
    page = context.new_page()
    before = received(collector, "commute")
    watch = shown(page, site, collector, "commute")
    answer(page)
    context.set_offline(True)
    send(page)
    thanked(page, "kept on this device")
    context.set_offline(False)
    thanked(page, "was counted")
    assert received(collector, "commute") == before + 1
    assert len(set(watch.bodies)) == 1


def test_a_page_that_the_campaign_does_not_name_gets_nothing(
    page: Page, site: Site, collector: Collector
) -> None:
    shown(page, site, collector, "elsewhere")
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(page.get_by_role("button", name="Send")).to_have_count(0)


def test_a_token_goes_along(page: Page, site: Site, collector: Collector) -> None:
    """A page sets it before the script has come; without it the element says who is asked."""
    shown(page, site, collector, "invited")
    page.get_by_role("radio", name="ios").check()
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("invited devices only")
    token = collector.token("device", campaign="invited")
    at, home = collector.collection("invited").url, f"http://{HOST}:{collector.port}"
    early = (
        "<script>Object.assign(document.querySelector('murmur-campaign'),"
        f" {{ options: {{ token: '{token}' }}, texts: {{ send: 'Go' }} }})</script>"
    )
    page.goto(site.add("/early", embedding(at, home + CLIENT) + early))
    page.get_by_role("radio", name="ios").check()
    page.get_by_role("button", name="Go").click()
    thanked(page, "was counted")


def test_two_tabs_make_one_report(
    context: BrowserContext, site: Site, collector: Collector
) -> None:
    """Both are sent at the same time, with other answers; one is charged, and both thank."""
    before = received(collector, "commute")
    tabs = [context.new_page() for _ in range(2)]
    watches = [shown(tab, site, collector, "commute") for tab in tabs]
    for tab, age in zip(tabs, (20, 80), strict=True):
        tab.bring_to_front()  # a tab in the background is slow
        answer(tab, age)
    clicks = (
        "document.querySelector('murmur-campaign').shadowRoot.querySelector('form').requestSubmit()"
    )
    for tab in tabs:
        tab.evaluate(f"setTimeout(() => {clicks}, 500 - Date.now() % 500)")
    for tab in tabs:
        thanked(tab)
    assert received(collector, "commute") == before + 1
    assert len(entries(tabs[0], collector)) == 1
    assert len(watches[0].bodies + watches[1].bodies) == 1
    assert ledger(tabs[0], collector, "ledger.spent().then(library.approximate)") == 2


def test_no_page_overspends(page: Page, site: Site, collector: Collector) -> None:
    """4 a report and 8 a collector: the third campaign of 4, and one of 5, get nothing."""
    for name in ("four-0", "four-1"):
        shown(page, site, collector, name)
        page.get_by_role("radio", name="ios").check()
        send(page)
        thanked(page)
    for name in ("four-2", "five"):
        shown(page, site, collector, name)
        page.get_by_role("radio", name="ios").check()
        send(page)
        expect(page.get_by_role("alert")).to_contain_text("budget does not allow")
        assert received(collector, name) == 0
    page.get_by_text("Privacy spent").click()
    expect(page.get_by_text("On this collector: 8 of 8")).to_be_visible()


def test_another_campaign_than_the_pinned_one_is_refused(
    page: Page, site: Site, collector: Collector
) -> None:
    watch = shown(page, site, collector, "commute", digest="0" * 64)
    expect(page.get_by_role("alert")).to_contain_text("not the campaign that this page expects")
    expect(page.get_by_role("button", name="Send")).to_have_count(0)
    assert watch.bodies == []
    digest = collector.get("/v1/campaigns/commute").json["digest"]
    shown(page, site, collector, "commute", digest=digest)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_hostile_labels_stay_text(page: Page, site: Site, collector: Collector) -> None:
    watch = shown(page, site, collector, "hostile")
    page.get_by_role("radio", name=IMAGE).check()
    page.get_by_text("What will be sent").click()
    expect(page.locator("pre")).to_be_visible()
    expect(page.locator("murmur-campaign").locator("img, script, b")).to_have_count(0)
    send(page)
    thanked(page)
    assert page.evaluate("window.hacked") is None
    assert watch.elsewhere(site.origin, f"http://{HOST}:{collector.port}/") == []


def test_a_document_that_would_hold_a_page_is_refused(page: Page, site: Site) -> None:
    """A loss next to nothing at a level with next to no budget: once, it was never worked out."""
    truth, lie = 2**51 + 1, 2**51 - 1
    law = {"permanent": {"truth": truth, "lie": lie}, "keep": truth, "swap": lie}
    asked = {"name": "a", "kind": "category", "labels": ["x", "y"], "outside": "spread"}
    parameters = {"epsilon": 1.0, "k": 2, "permanent": 1.0}
    cell = {"attributes": [0], "level": 0, "mechanism": "memoised", "parameters": parameters}
    collection = {
        **{"wire": 1, "campaign": "held", "epsilon": 1.0, "strategy": "split"},
        **{"levels": {"low": 5e-324}, "attributes": [asked], "cells": [{**cell, "law": law}]},
    }
    text = json.dumps(collection, separators=(",", ":"))
    document = {
        **{"format": 1, "campaign": "held", "version": 1},
        **{"digest": hashlib.sha256(text.encode()).hexdigest(), "purpose": "p", "people": 1000},
        **{"opens": None, "closes": None, "cohort": 100, "keep_reports": False, "upload": "open"},
        "collection": text,
    }
    site.add("/v1/campaigns/held", json.dumps(document))
    built = resources.files("murmuration.server") / "static" / "murmuration-client.js"
    site.add("/held.js", built.read_text())
    page.goto(site.add("/held", embedding("/v1/campaigns/held", "/held.js")))
    expect(page.get_by_text("cannot be trusted")).to_be_visible()


def test_a_strict_policy_holds(page: Page, site: Site, collector: Collector) -> None:
    """No inline style, no eval, no HTML from text; and the element still has its looks."""
    home = f"http://{HOST}:{collector.port}"
    policy = (
        f"default-src 'none'; script-src {home}/client/; connect-src {home}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) =>"
        " { (window.violations ??= []).push(event.violatedDirective); });"
    )
    shown(page, site, collector, "commute", policy=policy)
    answer(page)
    assert page.evaluate("getComputedStyle(document.querySelector('murmur-campaign')).display") == (
        "block"
    )
    page.get_by_text("What will be sent").click()
    send(page)
    thanked(page)
    assert page.evaluate("window.violations") is None


def test_the_keyboard_is_enough(page: Page, site: Site, collector: Collector) -> None:
    before = received(collector, "commute")
    shown(page, site, collector, "commute")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    keys = page.keyboard
    keys.press("Tab")
    keys.type("41")
    keys.press("Tab")
    keys.press("Space")
    keys.press("ArrowDown")
    keys.press("Tab")
    keys.press("Tab")
    keys.press("Space")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_text("An example, drawn now")).to_be_visible()
    expect(page.get_by_role("radio", name="ios")).to_be_checked()
    keys.press("Tab")
    keys.press("Tab")
    keys.press("Enter")
    thanked(page)
    expect(page.get_by_role("heading", name="Thank you")).to_be_focused()
    assert received(collector, "commute") == before + 1


# --- how it looks --------------------------------------------------------------------------------


def brightness(colour: str) -> float:
    """The relative luminance of rgb(...), as WCAG has it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasts(page: Page) -> list[float]:
    """How far each text stands out from what is behind it."""
    pairs = page.evaluate(
        "() => { const host = document.querySelector('murmur-campaign');"
        " const behind = getComputedStyle(host).backgroundColor;"
        " const own = (one) => { const found = getComputedStyle(one).backgroundColor;"
        " return found === 'rgba(0, 0, 0, 0)' ? behind : found; };"
        " return [...host.shadowRoot.querySelectorAll('h2, p, label, legend, button, summary')]"
        ".map((one) => [getComputedStyle(one).color, own(one)]); }"
    )
    lights = [sorted(map(brightness, pair), reverse=True) for pair in pairs]
    return [(light + 0.05) / (dark + 0.05) for light, dark in lights]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_small_screen_in_light_and_dark(
    page: Page, site: Site, collector: Collector, scheme: Any, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 320, "height": 700})
    page.emulate_media(color_scheme=scheme)
    shown(page, site, collector, "commute")
    answer(page)
    page.get_by_text("What will be sent").click()
    expect(page.locator("pre")).to_be_visible()
    page.screenshot(path=tmp_path / "form.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    background = page.evaluate(
        "getComputedStyle(document.querySelector('murmur-campaign')).backgroundColor"
    )
    assert (brightness(background) > 0.5) == (scheme == "light")
    assert min(contrasts(page)) >= 4.5
    send(page)
    thanked(page)
    page.screenshot(path=tmp_path / "thanks.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_menus_long_lists_levels_and_no_answer(
    page: Page, site: Site, collector: Collector
) -> None:
    watch = shown(page, site, collector, "forms")
    page.get_by_role("checkbox", name="No answer").first.check()
    page.get_by_role("combobox", name="country").select_option("Country 7")
    town = page.get_by_role("combobox", name="town")
    town.fill("Atlantis")
    page.get_by_role("radio", name=re.compile("^low")).check()
    send(page)
    expect(town).to_be_focused()
    expect(town).to_have_accessible_description(re.compile("an entry of the list"))
    town.fill("town 99")
    offered = page.locator("datalist option").evaluate_all("found => found.map(one => one.value)")
    assert offered == ["Town 99", *(f"Town 99{digit}" for digit in range(10))]
    page.get_by_text("What will be sent").click()
    expect(page.locator("pre")).to_be_visible()
    send(page)
    thanked(page, "was counted")
    (body,) = watch.bodies
    assert [entry[0] for entry in json.loads(body)["entries"]] == [0, 2, 4]  # all at level low
    assert page.evaluate("window.hacked") is None


def test_another_language(page: Page, site: Site, collector: Collector) -> None:
    """A table of texts in the page; numbers as the language writes them; a property, too."""
    table = json.dumps({"send": "Abschicken", "rangeUnit": "von {low} bis {high} {unit}"})
    body = f'<script type="application/json" id="german">{table}</script>'
    shown(page, site, collector, "commute", body=body, texts="german", lang="de")
    expect(page.get_by_role("button", name="Abschicken")).to_be_visible()
    expect(page.get_by_text("von 18 bis 98 years")).to_be_visible()
    expect(page.get_by_text("What will be sent")).to_be_visible()
    page.get_by_text("Privacy spent").click()
    page.evaluate("document.querySelector('murmur-campaign').texts = { send: 'Envoyer' }")
    expect(page.get_by_role("button", name="Envoyer")).to_be_visible()


# --- the library ---------------------------------------------------------------------------------

SEEDED = """
let [a, b, c, d] = [1, 2, 3, 4];
const next = () => {
  const t = (a + b | 0) + d | 0;
  d = d + 1 | 0; a = b ^ b >>> 9; b = c + (c << 3) | 0; c = (c << 21 | c >>> 11) + t | 0;
  return t >>> 0;
};
crypto.getRandomValues = (array) => {
  const words = new Uint32Array(array.buffer, array.byteOffset, array.byteLength >> 2);
  for (let i = 0; i < words.length; i++) words[i] = next();
  return array;
};
"""
"""The same words on every run: sfc32."""
COUNTED = """
async ([library, at, answers, n]) => {
  const { encode, example, readDocument } = await import(library);
  const document = new Uint8Array(await (await fetch(at)).arrayBuffer());
  const campaign = await readDocument(document, { address: at });
  const encoded = encode(campaign, answers);
  const counts = campaign.cells.map(() => new Map());
  for (let turn = 0; turn < n; turn++) {
    for (const [cell, octet] of (await example(campaign, encoded)).entries) {
      counts[cell].set(octet, (counts[cell].get(octet) ?? 0) + 1);
    }
  }
  return counts.map((found) => [...found]);
}
"""


def law_of_number(law: Any, x: float) -> np.ndarray:
    """How likely each symbol is: a mixture of the rows on both sides of x."""
    weights = np.array(law.design.weights, dtype=np.float64)
    place = (x + 1) / 2 * (len(weights) - 1)
    low = int(place)
    part = place - low
    return ((1 - part) * weights[low] + part * weights[low + 1]) / 2**52


def law_of_set(law: Any, item: int) -> np.ndarray:
    """How likely each set is: those with the item are alike, and those without."""
    sets = [one if bin(one).count("1") == law.w else -1 for one in range(1 << law.k)]
    own = np.array([one >= 0 and bool(one >> item & 1) for one in sets])
    other = np.array([one >= 0 and not one >> item & 1 for one in sets])
    return own * float(law.p) / own.sum() + other * float(1 - law.p) / other.sum()


def test_what_chromium_draws_follows_the_exact_law(
    page: Page, site: Site, collector: Collector
) -> None:
    """100,000 reports of a number and of an item, by Chromium and by Python: one test for both."""
    n, x, item = 100_000, 0.3, 2
    campaign = read(collector.get("/v1/campaigns/laws").body)
    numbers, items = campaign.frame.cells
    chances = [law_of_number(numbers, x), law_of_set(items, item)]
    page.add_init_script(SEEDED)
    page.goto(site.add("/laws", "<!doctype html><title>Laws</title>"))
    home = f"http://{HOST}:{collector.port}"
    at = collector.collection("laws").url
    told = {"number": x, "item": "abcdef"[item]}
    drawn = page.evaluate(COUNTED, [home + CLIENT, at, told, n])
    rng = seeded_rng(15)
    theirs = [
        np.bincount(numbers.privatize(np.full(n, x), rng), minlength=len(chances[0])),
        np.bincount(items.privatize(np.full(n, item), rng)[:, 0], minlength=len(chances[1])),
    ]
    for found, law, python in zip(drawn, chances, theirs, strict=True):
        counts = np.zeros(len(law), dtype=np.int64)
        for octet, many in found:
            counts[octet] = many
        assert chi_square(counts, law, n) > 0.01
        assert chi_square(python, law, n) > 0.01


REPORTED = """
async ([library, at, secret, answers, occasion]) => {
  const { Client, MemoryStore } = await import(library);
  const client = await Client.open(at, {
    store: new MemoryStore(), secret: Uint8Array.from(secret),
  });
  return await client.report(answers, occasion);
}
"""
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "commute": ({"age": 41, "phone": "ios", "commute": None}, {}),
    "forms": ({"age": 200, "country": "Country 3", "town": "Town 5"}, {"level": "low"}),
    "daily": ({"phone": "nokia"}, {"round": "2026-11-18"}),
}


@pytest.mark.filterwarnings("ignore::murmuration.errors.MisfitWarning")
@pytest.mark.parametrize("name", SAME)
def test_one_secret_makes_one_report_in_both_languages(
    page: Page, site: Site, collector: Collector, tmp_path: Path, name: str
) -> None:
    """Byte for byte; the collector takes the first, and knows the second."""
    answers, occasion = SAME[name]
    at, secret = collector.collection(name).url, bytes(range(32))
    client = Client(at, tmp_path / "ledger.db", secret=secret)
    when = {"period" if key == "round" else key: value for key, value in occasion.items()}
    ours = client.report(answers, **when)
    made = client.ledger.entries()[0]
    page.goto(site.add("/same", "<!doctype html><title>Same</title>"))
    home = f"http://{HOST}:{collector.port}"
    theirs = page.evaluate(REPORTED, [home + CLIENT, at, list(secret), answers, occasion])
    assert (ours.outcome, theirs["outcome"]) == ("stored", "duplicate")
    assert (theirs["reportId"], theirs["epsilon"]) == (ours.report_id, ours.epsilon)
    if made.report is not None:
        assert theirs["report"].encode() == made.report


def test_a_worker_shares_the_ledger(page: Page, site: Site, collector: Collector) -> None:
    """A web worker has the library, IndexedDB and the locks, and no page."""
    home = f"http://{HOST}:{collector.port}"
    site.add(
        "/worker.js",
        f"import {{ Client }} from '{home}{CLIENT}';"
        f"const client = await Client.open('{collector.collection('commute').url}');"
        "postMessage(await client.report({ age: 41, phone: 'ios', commute: 3 }));",
    )
    page.goto(site.add("/worker", "<!doctype html><title>Worker</title>"))
    receipt = page.evaluate(
        "new Promise((resolve, reject) => { const worker = new Worker('/worker.js',"
        " { type: 'module' }); worker.onmessage = (event) => resolve(event.data);"
        " worker.onerror = () => reject(new Error('the worker failed')); })"
    )
    assert (receipt["outcome"], receipt["fresh"]) == ("stored", True)
    assert [entry["reportId"] for entry in entries(page, collector)] == [receipt["reportId"]]
    shown(page, site, collector, "commute")
    thanked(page, "You have answered")


LIFE = """
async ([library, at]) => {
  const { approximate, Client, MemoryStore } = await import(library);
  const client = await Client.open(at, { store: new MemoryStore() });
  const told = [];
  for (const [day, phone] of [["1", "ios"], ["2", "android"], ["3", "other"], ["4", "ios"]]) {
    try {
      const { epsilon, outcome, report } = await client.report({ phone }, { round: day });
      told.push([epsilon, outcome, report]);
    } catch (problem) {
      told.push([problem.kind, problem.reason]);
    }
  }
  return told;
}
"""


def test_who_has_no_budget_left_says_no_answer(
    page: Page, site: Site, collector: Collector
) -> None:
    """As the device in Python: paid for with the first report, and bytes are not kept."""
    page.goto(site.add("/life", "<!doctype html><title>Life</title>"))
    home = f"http://{HOST}:{collector.port}"
    told = page.evaluate(LIFE, [home + CLIENT, collector.collection("daily").url])
    assert told == [
        *([2, "stored", None], [1, "stored", None], [0, "stored", None]),
        ["budget", "rounds"],
    ]
