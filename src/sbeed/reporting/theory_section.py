"""The theory on the page: its figure, drawn from its rows, and the table of claims."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sbeed.reporting import svg
from sbeed.reporting.figure_folder import CLAIMS
from sbeed.reporting.figure_results import Results
from sbeed.reporting.html_tables import table
from sbeed.reporting.markup import Markup, element, joined
from sbeed.reporting.stats import Series

Rows = Sequence[Mapping[str, Any]]
SAMPLED = ", sampled"  # beside the exact one of the same name
TITLE = "The paper's point in four panels"


def sections(results: Results) -> list[tuple[str, str, Markup]]:
    """The sections: id, title and content of each."""
    found = [("theory", TITLE, _theory(results.theory))] if results.theory else []
    return [*found, ("claims", "The laboratory's claims", _claims(results.claims))]


def _theory(rows: Rows) -> Markup:
    charts = (
        _chart(rows, "a", "Only the dual removes the bias of noise", "transition noise", "error of V"),
        _chart(rows, "b", "Smoothing costs at most its bound", "smoothing lam", "error of V", log="xy"),
        _chart(rows, "c", "Baird's star: weights", "iteration", "norm of the weights", log="y", only=": weight norm"),
        _chart(rows, "c", "Baird's star: error", "iteration", "Bellman error", log="y", only=": Bellman error"),
        _chart(rows, "d", "More data, less error", "steps of the path", "error of V", log="xy"),
    )
    return element("section", element("h2", TITLE), element("div", *charts, class_="panels"), id="theory")


def _chart(rows: Rows, panel: str, title: str, xlabel: str, ylabel: str, log: str = "", only: str = "") -> Markup:
    """only: the end of the names of the series to show, which is left out. A single point is no line: not shown."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["panel"] == panel and row["series"].endswith(only):
            found.setdefault(row["series"].removesuffix(only), []).append(row)
    series = {
        name: Series(*(np.array([row[column] for row in some]) for column in Series._fields))
        for name, some in found.items()
        if len(some) > 1
    }
    if not series:
        return joined()
    # Random MDPs are a crowd: one look for all, and one word.
    names = [name for name in series if not name.startswith("MDP ")]
    styles = {**dict.fromkeys(series, "c5 thin"), **svg.styles([name for name in names if not name.endswith(SAMPLED)])}
    styles |= {
        name: f"{styles.get(name.removesuffix(SAMPLED), 'c6')} dashed" for name in names if name.endswith(SAMPLED)
    }
    keys = [element("li", svg.key(styles[name]), name) for name in names]
    if len(names) < len(series):
        keys.append(element("li", svg.key("c5 thin"), f"{len(series) - len(names)} random MDPs"))
    chart = svg.chart(series, styles, title=title, xlabel=xlabel, ylabel=ylabel, log=log)
    return element(
        "div", element("h4", f"({panel}) {title}"), element("ul", *keys, class_="labels"), chart, class_="panel"
    )


def _claims(claims: Sequence[Mapping[str, Any]]) -> Markup:
    title = element("h2", "The laboratory's claims")
    if not claims:
        how = f"Not among these files: sbeed theory --json > {CLAIMS}"
        return element("section", title, element("p", how, class_="note"), id="claims")
    rows = [
        (
            joined(element("strong", claim["name"]), element("div", claim["says"], class_="says")),
            _verdict(f"{claim['held']} of {claim['mdps']}", claim["held"] == claim["mdps"]),
            f"{claim['margin']:.2g}" if claim["margin"] is not None else "–",
            _verdict("fails" if claim["counterexample_fails"] else "HOLDS", claim["counterexample_fails"]),
            f"{claim['seconds']:.1f}" if claim["seconds"] is not None else "–",
        )
        for claim in claims
    ]
    good = sum(claim["holds"] for claim in claims)
    about = (
        f"{good} of {len(claims)} statements of the paper hold on random finite MDPs, each with a counterexample that "
        "must fail. Margin: the share of a bound left unused; 0 is tight, 1 is an equality to rounding."
    )
    columns = ("statement", "holds on", "least margin", "counterexample", "seconds")
    found = table("Statements on random finite MDPs", columns, rows, numbers=range(1, 5))
    return element("section", title, element("p", about), found, id="claims")


def _verdict(words: str, good: bool) -> Markup:
    return joined(words) if good else element("span", words, class_="bad")
