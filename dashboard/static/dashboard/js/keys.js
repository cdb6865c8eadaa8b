// The palette and the keys. No key acts on a circuit; those without Ctrl can be switched off in the help sheet.
const SINGLE = "recloser-single-keys";
const palette = document.getElementById("palette");
const text = document.getElementById("palette-text");

const single = () => localStorage.getItem(SINGLE) !== "off";
const busy = () => Boolean(document.querySelector("dialog[open]"));
const writing = (element) => element.closest("input, textarea, select, [contenteditable]");
const links = () => [...document.querySelectorAll("#found a")];

function open() {
  if (!palette || busy()) return;
  palette.showModal();
  text.select();
  htmx.trigger(text, "recloser:open");
}

function shut() {
  palette.close();
  if (palette.contains(document.activeElement)) document.activeElement.blur(); // where nothing had the focus before
}

function help() {
  htmx.ajax("GET", document.querySelector("[data-shortcuts]").href, "#sheet-in");
}

// Enter goes to the first match: of what stands in the field, so a list that is still on its way is waited for.
let going = false;
const current = () => document.querySelector("#found > .found")?.dataset.for === text.value.trim();

function go() {
  going = !current();
  if (!going) links()[0]?.click();
}

function choose(step) {
  const all = links();
  const next = all.indexOf(document.activeElement) + step;
  (next < 0 ? text : all[Math.min(next, all.length - 1)])?.focus();
}

palette?.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step && event.key !== "Escape") return;
  event.preventDefault(); // a search field would empty itself, and tell nobody
  if (!step) return shut();
  choose(step);
});
palette?.addEventListener("submit", (event) => {
  event.preventDefault();
  go();
});
palette?.addEventListener("click", (event) => {
  if (event.target === palette || event.target.closest("[data-close]")) shut();
});
palette?.addEventListener("close", () => (going = false));
document.addEventListener("htmx:after:swap", () => going && current() && go());

// j and k walk the things of a page, the way they stand.
const things = () => [...document.querySelectorAll("#live :is(.need h3, .table tbody :is(th, td:first-child), .cell, .lines > li) a, #live a.cell")];

function walk(step) {
  const all = things();
  const next = all.indexOf(document.activeElement) + step;
  all[Math.max(0, Math.min(next, all.length - 1))]?.focus();
}

let after = -Infinity; // the moment of a `g`
function pressed(key) {
  const jump = performance.now() - after < 1500;
  after = -Infinity;
  if (jump) return document.querySelector(`.nav a[data-key="${CSS.escape(key)}"]`)?.click();
  if (key === "g") after = performance.now();
  return { "/": open, "?": help, j: () => walk(1), k: () => walk(-1) }[key]?.();
}

document.addEventListener("keydown", (event) => {
  const control = event.ctrlKey || event.metaKey;
  if (control && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open();
  } else if (!control && !event.altKey && !busy() && single() && !writing(event.target)) {
    if ("/?".includes(event.key)) event.preventDefault();
    pressed(event.key);
  }
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-palette]") || !palette) return;
  event.preventDefault();
  open();
});

// The switch in the help sheet tells and keeps what holds in this browser.
function settle() {
  const box = document.getElementById("single-keys");
  if (box) box.checked = single();
}
document.addEventListener("change", ({ target }) => {
  if (target.id === "single-keys") localStorage.setItem(SINGLE, target.checked ? "on" : "off");
});
document.addEventListener("htmx:after:swap", settle);
settle();
