// Draws the charts, filters the claims and serves the menus. Pages say all that matters without it.
"use strict";

const STYLE = {
  background: null, aria: false, font: "system-ui, sans-serif",
  view: {stroke: null},
  axis: {labelColor: "var(--quiet)", titleColor: "var(--ink)", gridColor: "var(--line)", domainColor: "var(--quiet)", tickColor: "var(--line)",
         labelFontSize: 12, titleFontSize: 12.5, titleFontWeight: "normal", titlePadding: 8},
  legend: {labelColor: "var(--ink)", labelFontSize: 12, symbolOpacity: 1, titleColor: "var(--ink)", rowPadding: 4, columnPadding: 14},
  text: {color: "var(--ink)"},
};

// Letters of the longest name in a scale: a legend has as many columns as fit
function longest(part) {
  if (!part || typeof part !== "object") return 0;
  const own = Array.isArray(part.domain) ? part.domain.map(name => String(name).length) : [];
  return Math.max(0, ...own, ...Object.entries(part).filter(([key]) => key !== "datasets").map(([, value]) => longest(value)));
}

function draw(place, spec) {
  const narrow = place.clientWidth < 520;
  const columns = Math.max(1, Math.min(4, Math.floor(place.clientWidth / (45 + 6.6 * longest(spec)))));
  const made = JSON.parse(JSON.stringify(spec));
  const config = {...STYLE, legend: {...STYLE.legend, columns: narrow ? 1 : columns, labelLimit: narrow ? place.clientWidth - 60 : 420}, axisY: {labelLimit: narrow ? 125 : 330}};
  return window.vegaEmbed(place, made, {actions: false, renderer: "svg", config, tooltip: {theme: "custom"}})
    .then(() => {
      place.querySelector("svg").setAttribute("aria-hidden", "true");  // its place has the text
      place.dataset.drawn = "yes";
    });
}

function json(id) {
  const found = document.getElementById(id);
  return found ? JSON.parse(found.textContent) : null;
}

// What the part of the address after # says: key=value pairs, or the id of a claim
function asked() {
  const hash = location.hash.slice(1);
  return hash.includes("=") ? new URLSearchParams(hash) : null;
}

function remember(form, defaults) {
  const pairs = [...new FormData(form)].filter(([key, value]) => value && value !== (defaults || {})[key]);
  const hash = new URLSearchParams(pairs).toString();
  history.replaceState(null, "", hash ? "#" + hash : "#");
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

function charts() {
  const jobs = [...document.querySelectorAll("script[data-chart]")].map(script => () =>
    draw(document.getElementById(script.dataset.chart), JSON.parse(script.textContent)));
  jobs.reduce((before, job) => before.then(job), Promise.resolve());
}

function claims() {
  const form = document.getElementById("filter");
  const all = [...document.querySelectorAll("article.claim")];
  const words = new Map(all.map(claim => [claim, (claim.id + " " + claim.closest(".sentence").querySelector("h3").textContent + " " +
    claim.closest(".sentence").querySelector("blockquote").textContent + " " + claim.textContent).toLowerCase()]));
  const fits = (claim, wanted) => ["paper", "kind", "verdict"].every(key => !wanted[key] || claim.dataset[key] === wanted[key])
    && (!wanted.exhibit || claim.dataset.exhibit.split(" ").includes(wanted.exhibit))
    && wanted.text.toLowerCase().split(/\s+/).every(word => words.get(claim).includes(word));
  function apply() {
    const wanted = Object.fromEntries(new FormData(form));
    let count = 0;
    for (const claim of all) count += !(claim.hidden = !fits(claim, wanted));
    for (const part of document.querySelectorAll(".sentence, .paper")) part.hidden = !part.querySelector("article.claim:not([hidden])");
    document.getElementById("shown").textContent = `${count} of ${all.length} claims` + (count ? "" : ". Try fewer words, or show all.");
  }
  function follow() {
    form.reset();
    restore(form);
    apply();
    const target = asked() ? null : document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) target.scrollIntoView();
  }
  form.hidden = false;
  form.addEventListener("input", () => { apply(); remember(form); });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { apply(); remember(form); }));
  addEventListener("hashchange", () => { if (location.hash.length > 1) follow(); });
  follow();
}

function comparison() {
  const form = document.getElementById("choose"), at = document.getElementById("rank-at");
  const specs = json("specs"), ranks = json("rank-lines"), body = document.getElementById("ranks");
  const defaults = Object.fromEntries([...new FormData(form), ...new FormData(at)]);
  const label = name => form.elements[name].selectedOptions[0].textContent;
  const put = (id, text) => document.getElementById(id).textContent = text;
  let drawing = Promise.resolve();
  function show() {
    const {series, score, axis} = Object.fromEntries(new FormData(form)), epsilon = at.elements.epsilon.value;
    const privacy = label("axis").split(":")[0];
    put("chart-title", `${label("series").replace(": every method", "")}: test ${label("score")} against ${privacy}`);
    document.getElementById("smaller").hidden = score === "accuracy";
    const spec = specs[`${series}|${score}|${axis}`];
    if (spec) drawing = drawing.then(() => draw(document.getElementById("compare"), spec));
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
  function save() {
    const both = new FormData(form);
    both.append("epsilon", at.elements.epsilon.value);
    const hash = new URLSearchParams([...both].filter(([key, value]) => value !== defaults[key])).toString();
    history.replaceState(null, "", "#" + hash);
  }
  function follow() { form.reset(); at.reset(); restore(form); restore(at); show(); }
  for (const one of [form, at]) {
    one.hidden = false;
    one.addEventListener("change", () => { show(); save(); });
    one.addEventListener("submit", event => event.preventDefault());
  }
  addEventListener("hashchange", follow);
  follow();
}

function steps() {
  const form = document.getElementById("steps-form"), specs = json("step-specs"), select = form.elements.steps;
  const first = select.value;
  let drawing = Promise.resolve();
  function show() {
    document.getElementById("steps-title").textContent = `ε against the number of steps: ${select.selectedOptions[0].textContent}`;
    drawing = drawing.then(() => draw(document.getElementById("steps"), specs[select.value]));
  }
  form.hidden = false;
  form.addEventListener("change", () => { show(); remember(form, {steps: first}); });
  form.addEventListener("submit", event => event.preventDefault());
  addEventListener("hashchange", () => { form.reset(); restore(form); show(); });
  restore(form);
  show();
}

document.documentElement.classList.add("scripted");
if (window.vegaEmbed) charts();
if (document.getElementById("filter")) claims();
if (document.getElementById("choose")) comparison();
if (document.getElementById("steps-form")) steps();
