"""The report in a real Chromium: `make test-browser`. Screenshots lie in out/browser for people to look at."""

import json
import os
import shutil
from pathlib import Path

import pytest

from sbeed.reporting import figure_folder, report_page, summary
from tests.reporting.folders import ablation, hostile, learned, unfinished

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "out" / "browser"
DESK, PHONE, NARROW = (1280, 900), (390, 844), (320, 640)
THEORY = Path(__file__).parents[2] / "results" / "theory"


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        pytest.fail("there is no chromium: this test sees nothing without one")
    # Chromium's own cage does not start for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    learned(root / "off_policy")
    ablation(root / "ablation")
    unfinished(root / "unfinished")
    for name in ("theory.csv", "claims.json"):
        shutil.copy(THEORY / name, root / name)
    return _written(root)


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    return _written(hostile(tmp_path_factory.mktemp("evil")))


def _written(root):
    (root / report_page.PAGE).write_text(
        report_page.page(figure_folder.read_results(root), root, "0.0"), encoding="utf-8"
    )
    return root


@pytest.fixture
def opened(chromium):
    """Opens a folder's page without a network; what the browser complains of, or asks for, is an error at the end."""
    contexts, wrong = [], []

    def open_page(folder, size=DESK, scheme="light", **more):
        viewport = dict(zip(("width", "height"), size))
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, offline=True, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda asked: asked.url.startswith("file:") or wrong.append(asked.url))
        page.goto((folder / report_page.PAGE).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def _shot(page, name, **more):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", **more)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE, NARROW], ids=["desk", "phone", "narrow"])
def test_the_page_loads_with_all_its_panels_and_scrolls_only_down(opened, folder, size, scheme):
    page = opened(folder, size, scheme)
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true }")
    charts = page.locator("svg.chart:visible")
    assert charts.count() == (3 + 3 + 1) + (1 + 3 + 1) + 5  # panels, comparisons, the laboratory's
    for chart in charts.all():
        box = chart.bounding_box()
        assert box["width"] >= 0.75 * min(size[0], 480)
        assert box["x"] + box["width"] <= size[0]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    _shot(page, f"{size[0]}-{scheme}", full_page=True)


def test_hovering_shows_the_numbers_of_the_rows(opened, folder):
    page = opened(folder)
    panel = figure_folder.read_figure(folder / "off_policy").panels[0]
    curves = summary.curves(panel, "mean", "step")
    chart = page.locator("#figure-1 svg.chart:visible").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    lo, hi, first, last = map(float, chart.get_attribute("data-domain").split())
    at = curves["SBEED paper"].x[4]
    place = (first + (at - lo) / (hi - lo) * (last - first)) * box["width"] / 360
    page.mouse.move(box["x"] + place, box["y"] + box["height"] / 2)
    said = page.locator("#values").inner_text()
    assert f"environment steps: {at:,}" in said
    y, lo, hi = (f"{series[4]:,.1f}".removesuffix(".0") for series in curves["SBEED paper"][1:])
    assert f"SBEED paper\n{y} [{lo}, {hi}]" in said
    assert chart.locator(".cursor").evaluate("one => getComputedStyle(one).visibility") == "visible"
    _shot(page, "hover")
    page.mouse.move(2, 2)
    assert not page.locator("#values").is_visible()


def test_hovering_says_how_many_seeds_there_are_where_it_is_not_all(opened, folder):
    page = opened(folder)
    chart = page.locator("#figure-2 svg.chart:visible").first
    chart.focus()
    for key in ("End", "Home"):
        page.keyboard.press(key)
    said = page.locator("#values").inner_text()
    assert "all\n6 [" in said
    assert said.count("seeds") == 2
    assert "some\n26 [21, 31]\n2 of 3 seeds" in said
    assert "cut\n56 [51, 61]\n2 of 2 seeds, cut where 1 diverged" in said
    assert page.locator("#figure-2 .panel p.note:visible").first.inner_text().startswith("some: 2 of 3 seeds; cut:")
    _shot(page, "seeds")


def test_touching_shows_numbers_inside_the_window(opened, folder):
    page = opened(folder, PHONE, has_touch=True, is_mobile=True)
    chart = page.locator("svg.chart:visible").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    for along in (0.3, 0.9):
        page.touchscreen.tap(box["x"] + along * box["width"], box["y"] + 0.5 * box["height"])
        said = page.locator("#values").bounding_box()
        assert said["x"] >= 0
        assert said["x"] + said["width"] <= PHONE[0]
    _shot(page, "touch")
    page.touchscreen.tap(5, 5)
    assert not page.locator("#values").is_visible()


def test_keys_move_along_a_chart(opened, folder):
    page = opened(folder)
    page.locator("svg.chart:visible").first.focus()
    said = []
    for key in ("ArrowLeft", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        said.append(page.locator("#values p").inner_text())
    assert said == ["iterations: 150", "iterations: 145", "iterations: 5"]
    page.keyboard.press("Escape")
    assert not page.locator("#values").is_visible()


def test_switches_choose_one_view_of_each_panel(opened, folder):
    page = opened(folder)
    figure = page.locator("#figure-1")
    seen = set()
    for version in summary.VERSIONS:
        for axis in summary.AXES:
            figure.locator(f"input[value={version}]").check()
            figure.locator(f"input[value={axis}]").check()
            charts = figure.locator("svg.chart[data-axis]:visible")
            views = {(one.get_attribute("data-version"), one.get_attribute("data-axis")) for one in charts.all()}
            assert charts.count() == 3
            assert views == {(version, axis)}
            seen |= views
    assert len(seen) == 4
    # Each figure has switches of its own.
    assert page.locator("#figure-0 svg.chart[data-axis]:visible").first.get_attribute("data-version") == "mean"


def test_links_to_rows_open_them(opened, folder):
    page = opened(folder)
    page.locator("summary", has_text="Pendulum-v1: 10 runs").click()
    page.locator("a", has_text="rows").locator("visible=true").first.click()
    assert page.url.endswith("metrics.jsonl")


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return (selector, property) => {
    const ink = light(getComputedStyle(document.querySelector(selector))[property]);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(opened, folder, scheme):
    """WCAG's ratios: 4.5 for text, 3 for lines that mean something."""
    page = opened(folder, PHONE, scheme)
    page.evaluate(f"() => {{ window.contrast = ({CONTRAST})() }}")
    for selector, least, what in (
        ("h1", 4.5, "color"),
        (".note", 4.5, "color"),
        ("thead th", 4.5, "color"),
        ("a", 4.5, "color"),
        (".chart text", 4.5, "fill"),
    ):
        assert page.evaluate("([s, p]) => contrast(s, p)", [selector, what]) >= least, selector
    for i in range(7):
        page.evaluate("i => { document.querySelector('.key').setAttribute('class', `key c${i}`) }", i)
        assert page.evaluate("() => contrast('.key', 'color')") >= 3, i


SMALL = """(least) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const small = new Set();
  let seen = 0;
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || holder.closest("script, svg")) continue;
    seen += 1;
    if (parseFloat(getComputedStyle(holder).fontSize) < least) small.add(`${holder.localName}.${holder.className}`);
  }
  return { seen, small: [...small] };
}"""


def test_text_is_large_enough_on_a_phone(opened, folder):
    """In pixels: 13 for all text, 10 for the marks of a chart."""
    page = opened(folder, PHONE)
    chart = page.locator("svg.chart:visible").first
    chart.focus()
    page.keyboard.press("Home")  # its numbers are text too
    found = page.evaluate(SMALL, 13)
    assert found["seen"] > 1000
    assert found["small"] == []
    width = chart.bounding_box()["width"]
    sizes = page.locator("svg.chart text").evaluate_all(
        "some => some.map((x) => parseFloat(getComputedStyle(x).fontSize))"
    )
    assert min(sizes) * width / 360 >= 10


@pytest.mark.parametrize("size", [DESK, PHONE, NARROW], ids=["desk", "phone", "narrow"])
def test_the_laboratorys_claims_can_be_read(opened, folder, size):
    page = opened(folder, size)
    claims = json.loads((THEORY / "claims.json").read_text())
    rows = page.locator("#claims tbody tr")
    assert rows.count() == len(claims) > 0
    for row, claim in zip(rows.all(), claims):
        assert row.locator("strong").inner_text() == claim["name"]
        assert row.locator(".says").inner_text() == claim["says"]
        assert row.locator("td").all_inner_texts()[0] == f"{claim['held']} of {claim['mdps']}"
    region = page.locator("#claims .scroll").bounding_box()
    assert region["x"] + region["width"] <= size[0]
    for box in (rows.locator(what).first.bounding_box() for what in (".says", "td >> nth=0")):  # without scrolling
        assert box["x"] + box["width"] <= region["x"] + region["width"]
    assert rows.locator(".says").first.bounding_box()["width"] >= 150
    last = rows.locator("td:last-child").first
    last.scroll_into_view_if_needed()
    box = last.bounding_box()
    assert 0 <= box["x"]
    assert box["x"] + box["width"] <= size[0]
    _shot(page, f"claims-{size[0]}")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_hostile_names_are_text(opened, evil, size):
    page = opened(evil, size)
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.locator("img, svg[onload]").count() == 0
    assert "<script>pwned=1</script>" in page.locator("h2").first.inner_text()
    chart = page.locator("svg.chart:visible").first
    chart.hover()
    assert "<script>" in page.locator("#values").inner_text()
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    _shot(page, f"hostile-{size[0]}")
