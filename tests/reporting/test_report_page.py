"""The page as text: everything on it, nothing from files as markup, and the command that writes it."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from sbeed.reporting import figure_folder, markup, plots, report_page, svg
from sbeed.reporting.number_format import duration, number, short
from sbeed.reporting.stats import Series
from sbeed.storage.run_dir import read_rows
from tests.commands import run_command
from tests.reporting.folders import LEARNED, ablation, hostile, learned, rows_of, unfinished, write_figure, write_run


class Page(HTMLParser):
    """Elements with their attributes, and the text by element."""

    VOID = ("meta", "input")

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append((self._open[-1] if self._open else "", data))

    def all(self, tag, **attributes):
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]

    def words(self, *tags):
        return " ".join(data for tag, data in self.text if tag in tags)


def _page(folder):
    return report_page.page(figure_folder.read_results(folder), folder, "0.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    learned(root / "off_policy")
    ablation(root / "ablation", seeds=2)
    return root


@pytest.fixture(scope="module")
def page(folder):
    return Page(_page(folder))


def test_each_panel_has_four_views_and_each_comparison_a_chart(page):
    charts = page.all("svg", **{"class": "chart"})
    views = [(chart["data-version"], chart["data-axis"]) for chart in charts if "data-version" in chart]
    assert len(views) == (3 + 3) * 4
    assert len(set(views)) == 4
    assert len(charts) == len(views) + 1 + 3
    assert all(chart["aria-label"] for chart in charts)


def test_the_numbers_of_a_chart_are_those_of_the_rows(page):
    (series,) = [
        found
        for name, found in page.elements
        if name == "g" and found.get("data-label") == "SBEED default" and found["data-x"].startswith("5056 10048")
    ][:1]
    rows = [row for row in read_rows(LEARNED / "default" / "Pendulum-v1") if row["step"] == 10048]
    at = series["data-x"].split().index("10048")
    assert float(series["data-y"].split()[at]) == pytest.approx(np.mean([row["return"] for row in rows]), rel=1e-5)


def test_tables_say_the_final_returns(page):
    starts = "| Pendulum-v1 | 20,000", "| HalfCheetah-v5 | 1,000,000"  # of `default`, as results/learning tells them
    lines = (LEARNED / "README.md").read_text().splitlines()
    for start in starts:
        score = next(line for line in lines if line.startswith(start)).split(" | ")[3]
        assert score in page.words("td")
    assert "15 h 00 min" in page.words("dd")
    assert "30 of 30" in page.words("dd")


def test_links_lead_to_rows_that_are_there(page, folder):
    links = [found["href"] for found in page.all("a") if not found["href"].startswith("#")]
    assert len(links) == 2 * (30 + 24)
    assert all((folder / link).is_file() for link in links)


def test_the_same_files_give_the_same_page(folder):
    assert _page(folder / "ablation") == _page(folder / "ablation")


def test_where_and_with_what_runs_have_ended_is_said(tmp_path):
    runs = []
    places = {"r0": "two cores", "r1": "two cores", "five": "one H200", "old": None}
    for id, place in places.items():
        seeds = range(5) if id == "five" else [9]
        rows = [row for seed in seeds for row in rows_of([1.0, 2.0], seed=seed)]
        write_run(tmp_path, id, {"env": "Pendulum-v1", "steps": 200, "seeds": len(seeds)}, rows)
        result = {"outcome": "finished", "lost": [], "seconds": 5400.0} | ({"machine": place} if place else {})
        if place:
            result["versions"] = {"sbeed": None, "jax": "0.11" if id == "five" else "0.10"}
        (tmp_path / "runs" / id / "result.json").write_text(json.dumps(result))
        runs += [{"label": "a", "seed": seed, "id": id} for seed in seeds]
    write_figure(tmp_path, [{"name": "p", "env": "Pendulum-v1", "x": "step", "runs": runs}], machine="the last one")
    text = report_page.page(figure_folder.read_results(tmp_path), tmp_path, "1.0")
    assert "two cores: 2 runs, 3 h 00 min; one H200: 5 runs (5 in 1 population), 90 min; –: 1 run, 90 min" in text
    assert "6 h 00 min together" in text
    assert "4 s</td>" in text
    assert text.count("4 s for 5 together</td>") == 5
    assert "Versions: jax 0.10 (2 runs); jax 0.11 (5 runs); not told (1 run)." in text
    assert "8 of 8" in text
    assert "the last one" not in text


def test_the_commands_time_is_said_only_where_runs_fit_into_it(tmp_path):
    for seed in range(3):
        write_run(tmp_path, f"r{seed}", {"steps": 200}, rows_of([1.0, 2.0], seed=seed))  # 4 s each
    runs = [{"label": "a", "seed": seed, "id": f"r{seed}"} for seed in range(3)]
    panels = [{"name": "A", "env": "B", "x": "step", "runs": runs}]

    def said(machine, seconds):
        facts = Page(_page(write_figure(tmp_path, panels, machine=machine, seconds=seconds))).words("dt", "dd")
        assert "time of the runs 12 s together" in facts
        return "wall time of the commands" in facts

    assert said("2 cores (some)", 6.5)
    assert not said("2 cores (some)", 5.5)  # not with all three on two cores
    assert not said("16 cores (some)", 3.5)  # not even the longest
    assert not said("some", 6.5)
    assert said("some", 12.5)
    assert not said("some", None)


def test_how_many_seeds_are_behind_a_curve_is_said_where_it_is_not_all(tmp_path):
    page = Page(_page(unfinished(tmp_path)))
    some, cut = "2 of 3 seeds", "2 of 2 seeds, cut where 1 diverged"
    assert page.words("p").count(f"some: {some}; cut: {cut}; none: 0 of 1 seeds.") == 2  # over each axis
    lines = [line for line in page.all("g") if "data-label" in line][: 3 * 4]  # of four views
    found = {(line["data-label"], line.get("data-note")) for line in lines}
    assert found == {("all", None), ("some", some), ("cut", cut)}
    drawn = plots.curves_figure(figure_folder.read_figure(tmp_path), "mean", "step")
    assert f"some: {some}\ncut: {cut}" in drawn.axes[0].get_xlabel()


def test_nothing_is_fetched(page):
    text = "".join(str(found) for _, found in page.elements)
    assert "http" not in text.replace("http-equiv", "")
    assert not [name for name, _ in page.elements if name in ("link", "img", "iframe", "object", "base", "form")]


def test_what_is_in_files_never_becomes_markup(tmp_path):
    clean = Page(_page(ablation(tmp_path / "clean", values=(0.1, 0.2), seeds=2)))
    text = _page(hostile(tmp_path / "evil"))
    page = Page(text)
    assert {name for name, _ in page.elements} <= {name for name, _ in clean.elements} | {"strong"}  # of a claim
    assert len(page.all("script")) == 1
    names = {name for _, found in page.elements for name in found}
    assert not [name for name in names if name.startswith("on") or name in ("style", "src", "srcdoc", "formaction")]
    assert all(re.match(r"#|\./", found["href"]) for found in page.all("a"))
    # It is there, as text.
    assert "<script>" in page.words("h2", "h4", "th", "summary", "pre")
    assert not set(text) & {"\x00", "\x1b", "\u202e"}
    text.encode()  # no half of a pair


def test_an_element_escapes_what_is_put_into_it():
    made = markup.element("p", "<b>", markup.element("i", "&"), title="\"'>")
    assert made == '<p title="&quot;&#x27;&gt;">&lt;b&gt;<i>&amp;</i></p>'
    assert markup.element("input", checked=False, value=0) == '<input value="0">'


def test_a_figure_of_which_nothing_has_begun(tmp_path):
    runs = [{"label": "a", "seed": 0, "id": "never"}]
    write_figure(tmp_path, [{"name": "A", "env": "B", "x": "step", "runs": runs}])
    page = Page(_page(tmp_path))
    assert "No run has rows yet." in page.words("p")
    assert "0 of 1" in page.words("dd")
    assert "not begun" in page.words("td")


def test_one_run_has_no_interval(tmp_path):
    write_run(tmp_path, "r", {}, rows_of([23.24]))
    runs = [{"label": "a", "seed": 0, "id": "r"}]
    page = Page(_page(write_figure(tmp_path, [{"name": "A", "env": "B", "x": "step", "runs": runs}])))
    assert "1 of 1 23.2 – 23.2" in page.words("td")


def test_claims_that_fail_are_seen(tmp_path):
    claim = {"name": "contraction", "says": "T contracts.", "holds": False, "held": 2, "mdps": 3, "margin": -0.5}
    (tmp_path / "claims.json").write_text(json.dumps([{**claim, "counterexample_fails": False, "seconds": 1.0}]))
    page = Page(_page(tmp_path))
    assert len(page.all("span", **{"class": "bad"})) == 2
    assert "0 of 1 statements" in page.words("p")
    assert "T contracts." in page.words("div")


def test_the_laboratorys_figure(tmp_path):
    (tmp_path / "theory.csv").write_text(
        "panel,series,x,y,lo,hi\n"
        + "".join(f"b,{name},{x},{x / 10},{x / 10},{x / 10}\n" for name in ("bound", "MDP 1") for x in (0, 1, 10))
        + "d,slope,0,-0.5,-0.6,-0.4\n"
        + "".join(f'a,"eta=0, sampled",{x},1,1,1\n' for x in (0, 1))
    )
    page = Page(_page(tmp_path))
    assert len(page.all("svg", **{"class": "chart"})) == 2
    assert "1 random MDPs" in page.words("li")


# ------------------------------------------------------------------------------------------------- charts


def test_steps_are_told_to_the_last_one():
    steps, nothing = np.array([1_052_672.0, 1_999_872.0]), np.zeros(2)
    drawn = svg.chart({"a": Series(steps, nothing, nothing, nothing)}, {"a": "c0"}, title="", xlabel="", ylabel="")
    assert 'data-x="1052672 1999872"' in drawn


def test_marks_are_round():
    assert svg.ticks(0, 1_000_000) == [0, 200_000, 400_000, 600_000, 800_000, 1_000_000]
    np.testing.assert_allclose(svg.ticks(-0.13, 0.31), [-0.1, 0, 0.1, 0.2, 0.3], atol=1e-12)
    assert list(svg.Scale(-2.0, 1.0, 0, 1, log=True).marks.values()) == [0.01, 0.1, 1, 10]


def test_a_gap_breaks_the_line():
    y = np.array([1, 2, np.nan, 4])
    drawn = svg.chart({"a": Series(np.arange(4), y, y, y)}, {"a": "c0"}, title="t", xlabel="x", ylabel="y")
    lines = re.findall(r'class="line" d="([^"]*)"', drawn)
    assert [line.count("L") for line in lines] == [1, 1]  # two points, and one that is drawn as a dot
    assert "nan" not in "".join(lines)


@pytest.mark.parametrize("values", [[np.nan], [0.0], [5.0, 5.0], [-1e99, 1e99], [1e-300, 2e-300]])
def test_every_series_has_a_place(values):
    y = np.array(values)
    drawn = svg.chart({"a": Series(np.arange(len(y)), y, y, y)}, {"a": "c0"}, title="t", xlabel="x", ylabel="y")
    places = re.findall(r'(?:d|x1|y1)="([^"]*)"', drawn)
    assert not [place for place in places if "nan" in place or "inf" in place]


def test_numbers_in_words():
    assert [short(x) for x in (0, 500, 1_500_000, -20_000, 0.25)] == ["0", "500", "1.5M", "-20k", "0.25"]
    assert [duration(s) for s in (93.5, 600, 54_000)] == ["94 s", "10 min", "15 h 00 min"]
    assert [number(x) for x in (None, 0.12345, -149.02, 11795.1)] == ["–", "0.123", "-149.0", "11,795"]


# ------------------------------------------------------------------------------------------------- pictures


def test_panels_are_drawn_in_both_versions(folder):
    figure = figure_folder.read_figure(folder / "off_policy")
    for version in ("mean", "iqm"):
        drawn = plots.curves_figure(figure, version, "iteration")
        assert [axes.get_title(loc="left") for axes in drawn.axes] == ["Pendulum-v1", "Hopper-v5", "HalfCheetah-v5"]
        assert all(len(axes.lines) == 2 for axes in drawn.axes)
        assert [text.get_text() for text in drawn.legends[0].texts] == ["SBEED default", "SBEED paper"]
    drawn = plots.curves_figure(figure_folder.read_figure(folder / "ablation"), "mean", "step")
    assert not drawn.legends  # each panel has its own
    assert len({line.get_color() for axes in drawn.axes for line in axes.lines}) == 4


def test_comparisons_are_drawn_where_there_are_any(folder, tmp_path):
    drawn = plots.comparison_figure(figure_folder.read_figure(folder / "off_policy"))
    left, right = drawn.axes
    assert len(left.lines) == 2
    assert len(right.texts) == 2
    write_run(tmp_path, "r", {}, rows_of([1.0]))
    runs = [{"label": "$alone", "seed": 0, "id": "r"}]
    alone = figure_folder.read_figure(write_figure(tmp_path, [{"name": "$A", "env": "B", "x": "step", "runs": runs}]))
    assert plots.comparison_figure(alone) is None
    assert [path.name for path in plots.pictures(alone)] == ["curves.png", "curves.svg", "iqm.png", "iqm.svg"]


def test_curves_are_drawn_over_every_axis_asked_for(tmp_path):
    write_run(tmp_path, "r", {"steps_per_iteration": 10}, rows_of([1.0]))
    runs = [{"label": "one", "seed": 0, "id": "r"}]
    panels = [{"name": "A", "env": "B", "x": x, "runs": runs} for x in ("iteration", "step")]
    drawn = plots.pictures(figure_folder.read_figure(write_figure(tmp_path, panels)))
    assert [path.stem for path in drawn[::2]] == ["curves", "iqm", "curves_over_steps", "iqm_over_steps"]


def test_pictures_of_what_is_no_more_are_removed(tmp_path):
    for seed in range(2):
        for label in "ab":
            write_run(tmp_path, f"{label}{seed}", {"steps_per_iteration": 10}, rows_of([1.0], seed=seed))
    runs = [{"label": label, "seed": seed, "id": f"{label}{seed}"} for label in "ab" for seed in range(2)]
    panels = [{"name": "A", "env": "B", "x": x, "runs": runs} for x in ("iteration", "step")]

    def drawn(panels):
        paths = plots.pictures(figure_folder.read_figure(write_figure(tmp_path, panels)))
        there = {path.name for path in tmp_path.iterdir() if path.suffix in (".png", ".svg")} - {"mine.png"}
        assert there == {path.name for path in paths}
        return {path.stem for path in paths}

    (tmp_path / "mine.png").touch()
    assert drawn(panels) == {"curves", "iqm", "curves_over_steps", "iqm_over_steps", "comparison"}
    assert drawn([{**panel, "runs": runs[:2]} for panel in panels[::-1]]) == {
        "curves", "iqm", "curves_over_iterations", "iqm_over_iterations",
    }  # fmt: skip
    assert drawn([{**panels[0], "runs": runs[:2]}]) == {"curves", "iqm"}
    assert (tmp_path / "mine.png").exists()


def test_curves_of_very_different_lengths_share_a_logarithmic_axis(tmp_path):
    for label, each in (("short", 2000), ("long", 100)):
        write_run(tmp_path, label, {"steps_per_iteration": each}, rows_of([1.0, 2.0, 3.0], every=2000))
    runs = [{"label": label, "seed": 0, "id": label} for label in ("short", "long")]
    folder = write_figure(tmp_path, [{"name": "A", "env": "B", "x": "step", "runs": runs}])
    figure = figure_folder.read_figure(folder)
    scales = {x: plots.curves_figure(figure, "mean", x).axes[0].get_xscale() for x in ("step", "iteration")}
    assert scales == {"step": "linear", "iteration": "log"}
    charts = Page(_page(folder)).all("svg", **{"class": "chart", "data-version": "mean"})
    assert {chart["data-axis"]: chart.get("data-log") for chart in charts} == {"step": None, "iteration": "x"}


# ------------------------------------------------------------------------------------------------- the command


def test_the_command_writes_one_page(folder, capsys):
    code, out, _ = run_command(capsys, "report", str(folder / "ablation"))
    assert code == 0
    assert out == f"{folder / 'ablation' / 'report.html'}\n"
    assert (folder / "ablation" / "report.html").read_text().startswith("<!doctype html>")


def test_a_page_that_is_a_link_is_replaced_and_not_followed(tmp_path, capsys):
    ablation(tmp_path / "figure", values=(0.1,), seeds=1)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "figure" / "report.html").symlink_to(tmp_path / "mine")
    assert run_command(capsys, "report", str(tmp_path / "figure"))[0] == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "figure" / "report.html").is_symlink()


def test_wrong_input_gets_one_line(tmp_path, capsys):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "figure.json").write_text("{")
    for path, words in ((tmp_path / "nowhere", "not a directory"), (tmp_path / "broken", "figure.json")):
        code, out, err = run_command(capsys, "report", str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


def test_reports_never_import_jax():
    heavy = "{'jax', 'equinox', 'optax', 'matplotlib'}"
    code = f"import sys, sbeed.reporting.report_page; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
