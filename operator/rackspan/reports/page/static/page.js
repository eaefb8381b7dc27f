// What the parts of the page share. Text enters the page as text nodes only, never as markup.
"use strict";
const page = JSON.parse(document.getElementById("data").textContent);
const scan = page.document;
const by = (id) => document.getElementById(id);
const rankOf = (severity) => { const at = page.severities.indexOf(severity); return at < 0 ? page.severities.length : at; };
const ruleName = (rule) => Object.hasOwn(page.rules, rule) ? page.rules[rule] : rule;
const numbers = new Intl.NumberFormat("en-GB");
const number = (value) => numbers.format(value);
const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  let unit = 0;
  while (bytes >= 1024 && unit < 6) { bytes /= 1024; unit += 1; }
  return `${bytes.toLocaleString("en-GB", { minimumFractionDigits: unit && 1, maximumFractionDigits: unit && 1 })} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit]}`;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("--")) made.style.setProperty(key, value);
    else if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

function icon(name) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("class", "icon");
  made.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  made.append(use);
  return made;
}

const badge = (severity) => element("span", { class: `badge ${page.severities.includes(severity) ? severity : "info"}` },
  icon(page.severities.includes(severity) ? severity : "info"), severity);

// How long ago something was, seen from the scan and not from whoever reads the page later.
function ago(since) {
  const minutes = (Date.parse(scan.finishedAt) - Date.parse(since)) / 60000;
  if (!Number.isFinite(minutes)) return "";
  if (Date.parse(since) >= Date.parse(scan.startedAt)) return "this scan";
  if (minutes < 1) return "<1 min";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} d`;
}

const onTheme = [];
{
  const themes = ["auto", "light", "dark"];
  const root = document.documentElement;
  const keep = (theme) => { try { localStorage.setItem("rackspan-theme", theme); } catch { /* a file may have no storage */ } };
  const kept = () => { try { return localStorage.getItem("rackspan-theme"); } catch { return null; } };
  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    by("theme").textContent = `Theme: ${theme}`;
    onTheme.forEach((tell) => tell());
  };
  let chosen = themes.includes(kept()) ? kept() : "auto";
  show(chosen);
  by("theme").addEventListener("click", () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    keep(chosen);
    show(chosen);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => onTheme.forEach((tell) => tell()));
}

// Long tables begin with their first rows.
for (const table of document.querySelectorAll("table[data-show]")) {
  const rows = [...table.tBodies[0].rows];
  const first = Number(table.dataset.show);
  if (rows.length <= first + 2) continue;
  const hide = (hidden) => rows.slice(first).forEach((row) => { row.hidden = hidden; });
  hide(true);
  const more = element("button", { type: "button", class: "more" }, `Show all ${number(rows.length)}`);
  more.addEventListener("click", () => { hide(false); rows[first].querySelector("button, td")?.focus?.(); more.remove(); });
  table.after(more);
}
