// Draws the chart of compare.html, filters the claims and serves the menus. Pages say all that matters without it.
"use strict";

const STYLE = {
  background: null, aria: false, font: "system-ui, sans-serif",
  view: {stroke: null},
  axis: {labelColor: "var(--quiet)", titleColor: "var(--ink)", gridColor: "var(--line)", domainColor: "var(--quiet)", tickColor: "var(--line)",
         labelFontSize: 12, titleFontSize: 12.5, titleFontWeight: "normal", titlePadding: 8},
  text: {color: "var(--ink)"},
};

// The Vega-Lite chart of a score against ε; charts.py describes its data. x and y: titles; ln: a second axis, at the top
function curves({points, levels, methods}, x, y, ln) {
  const all = points.map(point => point.eps), domain = [Math.min(...all) / 1.25, Math.max(...all) * 1.25];
  const look = name => ({domain: methods.map(of => of.label), range: methods.map(of => of[name])});
  const by = name => ({field: "label", type: "nominal", scale: look(name), legend: null});
  const color = by("color"), strokeDash = by("dash");
  const value = field => ({field, type: "quantitative", title: y, scale: {zero: false, nice: true}});
  const tip = (field, title, format) => ({field, title, format, type: format ? "quantitative" : "nominal"});
  const method = tip("label", "method"), mean = tip("mean", y, ".4~f");
  const short = "datum.label == '' ? '' : datum.value >= 1e5 || datum.value < 1e-3 ? replace(format(datum.value, '.0e'), '+', '') : format(datum.value, '~r')";
  const line = {condition: {test: "datum.label == ''", value: "transparent"}, value: "var(--line)"};
  const at = axis => ({field: "eps", type: "quantitative", scale: {type: "log", domain, clamp: true}, axis});
  const lines = {
    data: {values: points},
    encoding: {
      x: at({title: x, labelExpr: short, labelOverlap: true, labelSeparation: 8, gridColor: line, tickColor: line}), color,
      tooltip: [method, tip("eps", "ε", ".3~g"), mean, tip("low", "95 % from", ".4~f"), tip("high", "to", ".4~f")],
      opacity: {condition: {test: "!chosen || datum.label == chosen", value: 1}, value: 0.12},
    },
    layer: [
      {mark: {type: "rule", strokeWidth: 1.2}, encoding: {y: value("low"), y2: {field: "high"}}},
      {mark: {type: "line", strokeWidth: 1.8}, encoding: {y: value("mean"), strokeDash}},
      {mark: {type: "point", size: 55, strokeWidth: 1.6}, encoding: {y: value("mean"), shape: by("shape"), fill: {condition: {test: "datum.state == 'hollow'", value: "var(--ground, white)"}, ...color}}},
    ],
  };
  const layer = [{data: {values: levels}, mark: {type: "rule", strokeWidth: 1.4}, encoding: {y: value("mean"), color, strokeDash, tooltip: [method, mean]}}, lines];
  const spec = {params: [{name: "chosen", value: ""}], width: "container", height: 340, autosize: {type: "fit-x", contains: "padding"}};
  if (!ln) return {...spec, layer};
  const values = Array.from({length: 13}, (_, k) => Math.exp(k - 7)).filter(e => domain[0] <= e && e <= domain[1]);
  const top = at({orient: "top", title: "ln ε, the paper's axis", values, labelExpr: "format(log(datum.value), '.0f')", grid: false});
  return {...spec, layer: [{layer}, {data: {values: points}, mark: {type: "point", opacity: 0, size: 0}, encoding: {x: top}}], resolve: {axis: {x: "independent"}}};
}

// The names of Vega's shapes as paths between -1 and 1; other shapes are paths already
const SHAPES = {
  circle: "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z", square: "M-.9,-.9H.9V.9H-.9Z", diamond: "M0,-1L1,0L0,1L-1,0Z",
  cross: "M-.4,-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4Z", "triangle-up": "M-1,.8H1L0,-.9Z", "triangle-down": "M-1,-.8H1L0,.9Z",
  "triangle-left": "M.8,-1V1L-.9,0Z", "triangle-right": "M-.8,-1V1L.9,0Z",
};

// Fills the list with a button for each method: its line, its mark unless it is a level, its name. A button highlights its method
function legend(list, {levels, methods}, view) {
  const flat = new Set(levels.map(of => of.label));
  list.replaceChildren(...methods.map(({label, color, shape, dash}) => {
    const entry = document.createElement("li"), button = document.createElement("button"), name = document.createElement("span");
    button.type = "button";
    button.ariaPressed = "false";
    button.innerHTML = `<svg viewBox="-18 -6 36 12" aria-hidden="true" style="color: ${color}"><path d="M-18,0H18" stroke-dasharray="${dash}"/>`
      + (flat.has(label) ? "" : `<path d="${SHAPES[shape] ?? shape}" transform="scale(4.5)" class="mark"/>`) + "</svg>";
    name.textContent = label;
    button.append(name);
    button.addEventListener("click", () => {
      const pressed = button.ariaPressed === "true" ? "" : label;
      for (const other of list.querySelectorAll("button")) other.ariaPressed = String(other.textContent === pressed);
      view.signal("chosen", pressed).runAsync();
    });
    entry.append(button);
    return entry;
  }));
}

function draw(place, data, x, y, ln) {
  return window.vegaEmbed(place, curves(data, x, y, ln), {actions: false, renderer: "svg", config: STYLE, tooltip: {theme: "custom"}})
    .then(({view}) => {
      legend(document.getElementById("legend"), data, view);
      place.querySelector("svg").setAttribute("aria-hidden", "true");  // its place has the text
      place.dataset.drawn = "yes";
    });
}

const json = id => JSON.parse(document.getElementById(id).textContent);

// Return the key=value pairs after # in the address, or null if an id stands there
function asked() {
  const hash = location.hash.slice(1);
  return hash.includes("=") ? new URLSearchParams(hash) : null;
}

function remember(pairs) {
  history.replaceState(null, "", "#" + new URLSearchParams(pairs));
}

function restore(form) {
  const wanted = asked();
  if (!wanted) return;
  for (const field of form.elements) {
    if (!field.name || !wanted.has(field.name)) continue;
    const value = wanted.get(field.name);
    if (field.tagName !== "SELECT" || [...field.options].some(option => option.value === value)) field.value = value;
  }
}

// An address may have both: #verdict=fails&id=wang2015_ops filters and opens one claim
function claims() {
  const form = document.getElementById("filter");
  const all = [...document.querySelectorAll("article.claim")];
  const words = new Map(all.map(claim => [claim, (claim.id + " " + claim.textContent).toLowerCase()]));
  let chosen = null;
  const fits = (claim, wanted) => ["paper", "kind"].every(key => !wanted[key] || claim.dataset[key] === wanted[key])
    && (!wanted.verdict || [claim.dataset.verdict, claim.dataset.cause].includes(wanted.verdict))
    && (!wanted.exhibit || claim.dataset.exhibit.split(" ").includes(wanted.exhibit))
    && wanted.text.toLowerCase().split(/\s+/).every(word => words.get(claim).includes(word));
  function apply() {
    const wanted = Object.fromEntries(new FormData(form));
    let count = 0;
    for (const claim of all) count += !(claim.hidden = !(fits(claim, wanted) || claim === chosen));
    for (const part of document.querySelectorAll(".paper")) part.hidden = !part.querySelector("article.claim:not([hidden])");
    document.getElementById("shown").textContent = `${count} of ${all.length} claims` + (count ? "" : ". Try fewer words, or show all.");
  }
  function choose(claim) {
    chosen?.classList.remove("chosen");
    chosen = claim;
    if (!claim) return;
    claim.classList.add("chosen");
    claim.querySelector("details").open = true;
  }
  function save() {
    const pairs = [...new FormData(form)].filter(([, value]) => value);
    if (!chosen) remember(pairs);
    else if (pairs.length) remember([...pairs, ["id", chosen.id]]);
    else history.replaceState(null, "", "#" + chosen.id);
  }
  function follow() {
    form.reset();
    restore(form);
    const id = asked() ? asked().get("id") : decodeURIComponent(location.hash.slice(1));
    choose(all.find(claim => claim.id === id) ?? null);
    apply();
    (chosen ?? (asked() || !id ? null : document.getElementById(id)))?.scrollIntoView();
  }
  form.hidden = false;
  form.addEventListener("input", () => { choose(null); apply(); save(); });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => { if (event.isTrusted) setTimeout(() => { choose(null); apply(); save(); }); });
  for (const claim of all) claim.querySelector("h3 a").addEventListener("click", event => {
    event.preventDefault();
    choose(claim);
    save();
  });
  addEventListener("hashchange", () => { if (location.hash.length > 1) follow(); });
  follow();
}

function comparison() {
  const form = document.getElementById("choose"), at = document.getElementById("rank-at");
  const curvesOf = json("curves"), ranks = json("rank-lines"), body = document.getElementById("ranks");
  const chosen = () => [...new FormData(form), ...new FormData(at)];
  const defaults = Object.fromEntries(chosen());
  const label = name => form.elements[name].selectedOptions[0].textContent;
  const put = (id, text) => document.getElementById(id).textContent = text;
  let drawing = Promise.resolve();
  function show() {
    const {series, score, axis} = Object.fromEntries(new FormData(form)), epsilon = at.elements.epsilon.value;
    const privacy = label("axis").split(":")[0];
    put("chart-title", `${label("series").replace(": every method", "")}: test ${label("score")} against ${privacy}`);
    document.getElementById("smaller").hidden = score === "accuracy";
    const data = curvesOf[`${series}|${score}|${axis}`], ln = axis === "promised" && series.startsWith("wang2015");
    if (data) drawing = drawing.then(() => draw(document.getElementById("compare"), data, privacy, `test ${label("score")}`, ln));
    const lines = ranks[`${series}|${score}|${axis}|${epsilon}`];
    document.getElementById("ranking").hidden = !lines;
    document.getElementById("no-ranks").hidden = Boolean(lines);
    if (!lines) return;
    put("rank-title", `Ranks by ${label("score")} on ${label("series").split(":")[0]} at the ${privacy} of ${epsilon}`);
    put("score-name", label("score"));
    body.replaceChildren(...lines.map(([name, value, interval, gap, p, words]) => {
      const row = document.createElement("tr");
      row.className = words.startsWith("best") ? "best" : words.startsWith("cannot") ? "level" : "";
      for (const [tag, text, kind] of [["th", name], ["td", words], ["td", value, "number"], ["td", interval, "number"], ["td", gap, "number"], ["td", p, "number"]]) {
        const cell = document.createElement(tag);
        if (tag === "th") cell.scope = "row";
        if (kind) cell.className = kind;
        cell.textContent = text;
        row.append(cell);
      }
      return row;
    }));
  }
  const save = () => remember(chosen().filter(([key, value]) => value !== defaults[key]));
  function follow() { form.reset(); at.reset(); restore(form); restore(at); show(); }
  for (const one of [form, at]) {
    one.hidden = false;
    one.addEventListener("change", () => { show(); save(); });
    one.addEventListener("submit", event => event.preventDefault());
  }
  addEventListener("hashchange", follow);
  follow();
}

// A button that copies the command before it and says so for two seconds
function copies(button) {
  const command = button.previousElementSibling.textContent;
  button.hidden = false;
  button.setAttribute("aria-label", `Copy: ${command}`);
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(command); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousElementSibling); button.textContent = "Press Ctrl-C"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

document.documentElement.classList.add("scripted");
document.querySelectorAll("button.copy").forEach(copies);
if (document.getElementById("filter")) claims();
if (document.getElementById("choose")) comparison();
