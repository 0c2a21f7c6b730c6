// Filters the claims and copies commands. Pages say all that matters without it.
"use strict";

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
