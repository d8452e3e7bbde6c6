"use strict";
// Hovering over a chart, touching it, or moving along it with the arrow keys shows its numbers.
(() => {
  const box = document.getElementById("values");
  const CLOSE = 6; // a line without a point this near, in the chart's units, says nothing
  let shown = null; // the chart whose numbers are shown

  const read = (chart) => {
    const [lo, hi, first, last] = chart.dataset.domain.split(" ").map(Number);
    const series = [...chart.querySelectorAll("g[data-x]")].map((g) => {
      const numbers = (name) => g.dataset[name].split(" ").map(Number);
      return { label: g.dataset.label, note: g.dataset.note, kind: g.getAttribute("class"), x: numbers("x"), y: numbers("y"), lo: numbers("lo"), hi: numbers("hi") };
    });
    const every = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
    // A logarithmic axis tells its ends as exponents.
    const along = chart.dataset.log ? Math.log10 : (x) => x;
    const place = (x) => first + ((along(x) - lo) / (hi - lo)) * (last - first);
    return { series, every, place, at: every.length - 1 };
  };
  const known = new Map();
  const dataOf = (chart) => known.get(chart) ?? known.set(chart, read(chart)).get(chart);

  const nearest = (values, x) => values.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(values[best] - x) ? i : best), 0);
  const words = (value) => {
    const size = Math.abs(value);
    if (size > 0 && size < 0.01) return value.toPrecision(3);
    const digits = size >= 1000 ? 0 : size >= 10 ? 1 : 3;
    return value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: digits });
  };
  const part = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.setAttribute("class", kind);
    return made;
  };

  const show = (chart, clientX, clientY) => {
    const data = dataOf(chart);
    const x = data.every[data.at];
    if (x === undefined) return;
    const rows = data.series
      .map((one) => ({ one, i: nearest(one.x, x) }))
      .filter(({ one, i }) => Math.abs(data.place(one.x[i]) - data.place(x)) <= CLOSE && Number.isFinite(one.y[i]))
      .sort((a, b) => b.one.y[b.i] - a.one.y[a.i])
      .map(({ one, i }) => {
        const row = part("div");
        const interval = one.hi[i] > one.lo[i] ? ` [${words(one.lo[i])}, ${words(one.hi[i])}]` : "";
        const note = one.note ? `\n${one.note}` : "";
        row.append(part("span", one.label, one.kind), part("b", words(one.y[i]) + interval + note));
        return row;
      });
    const name = chart.querySelector(".name").textContent;
    box.replaceChildren(part("p", `${name}: ${words(x)}`), ...rows);
    box.classList.add("on");
    const cursor = chart.querySelector(".cursor");
    cursor.setAttribute("x1", data.place(x));
    cursor.setAttribute("x2", data.place(x));
    cursor.classList.add("on");
    if (shown && shown !== chart) shown.querySelector(".cursor").classList.remove("on");
    shown = chart;
    const size = box.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = clientX + 14 + size.width > width ? clientX - 14 - size.width : clientX + 14;
    // On the page, not on the window: it scrolls away with the chart.
    box.style.left = `${window.scrollX + Math.max(4, Math.min(left, width - size.width - 4))}px`;
    box.style.top = `${window.scrollY + Math.max(4, Math.min(clientY + 14, window.innerHeight - size.height - 4))}px`;
  };
  const hide = () => {
    box.classList.remove("on");
    if (shown) shown.querySelector(".cursor").classList.remove("on");
    shown = null;
  };

  for (const chart of document.querySelectorAll("svg.chart")) {
    const follow = (event) => {
      const data = dataOf(chart);
      const place = chart.getBoundingClientRect();
      const at = ((event.clientX - place.left) / place.width) * chart.viewBox.baseVal.width;
      data.at = nearest(data.every.map(data.place), at);
      show(chart, event.clientX, event.clientY);
    };
    chart.addEventListener("pointermove", follow);
    chart.addEventListener("pointerdown", follow);
    // A finger leaves whenever it is lifted: what it touched stays to be read, until it touches something else.
    chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") hide();
      if (step === undefined) return;
      event.preventDefault();
      const data = dataOf(chart);
      if (shown === chart) data.at = Math.max(0, Math.min(data.every.length - 1, data.at + step));
      const place = chart.getBoundingClientRect();
      show(chart, place.left + (data.place(data.every[data.at]) / chart.viewBox.baseVal.width) * place.width, place.top + place.height / 3);
    });
  }
  document.addEventListener("pointerdown", (event) => event.target.closest("svg.chart") || hide());
})();
