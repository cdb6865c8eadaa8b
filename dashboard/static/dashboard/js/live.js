// Keeps the part that changes true: fetched again when the feed says so, polled when there is none,
// and called stale when neither has worked for a while.
const SLOW = 15_000; // with a feed: for what no circuit's version tells
const FAST = 5_000; // without one
const FRESH = 25_000;

const badge = document.getElementById("feed");
const banner = document.getElementById("stale");
let heard = -Infinity; // the feed's last sign of life
let fetched = performance.now(); // the page itself
let trueAt = Date.now(); // the last moment for which this page is known to be right
let shown = "";
let pending = null;

const part = () => document.getElementById("live");

function refresh(within = 0) {
  if (document.hidden || pending || !part()) return;
  pending = setTimeout(() => {
    pending = null;
    if (part()) htmx.trigger(part(), "recloser:refresh");
  }, Math.random() * within);
}

function state() {
  const now = performance.now();
  if (now - heard < FRESH) return "live";
  return now - fetched < FRESH ? "polling" : "stale";
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

function show() {
  const present = state();
  if (present === shown || !badge) return;
  shown = present;
  badge.dataset.feed = present;
  const since = clock.format(trueAt);
  badge.textContent = { live: "Live", polling: "Polling", stale: `Stale since ${since}` }[present];
  banner.hidden = present !== "stale";
  banner.firstElementChild.textContent = present === "stale" ? `This page has lost its feed: what you see is from ${since}. It goes on trying.` : "";
}

document.addEventListener("recloser:feed", ({ detail }) => {
  if (detail.lost) heard = -Infinity;
  if (detail.alive) {
    heard = performance.now();
    trueAt = Date.now();
  }
  if ("changed" in detail && (detail.changed === null || detail.changed > Number(part()?.dataset.version))) refresh(150);
  show();
});

// What this page already shows of the fleet is named, not sent again: the answer holds those parts empty, by their mark.
const parts = () => [...document.querySelectorAll("#live .fleet > .part")];
let whole = false;

document.addEventListener("htmx:config:request", ({ detail }) => {
  if (detail.ctx.sourceElement !== part() || whole) return;
  const shown = parts().map((one) => one.dataset.mark).join();
  if (shown) detail.ctx.request.headers["X-Recloser-Fleet"] = shown;
});

function fill(fragment) {
  return [...fragment.querySelectorAll(".fleet > .part[data-same]")].every((one) => {
    const shown = document.getElementById(one.id);
    if (shown?.dataset.mark !== one.dataset.mark) return false;
    one.replaceWith(shown.cloneNode(true));
    return true;
  });
}

document.addEventListener("htmx:before:swap", (event) => {
  const fragment = event.detail.tasks.find((task) => task.target?.id === "live")?.fragment;
  if (!fragment) return;
  whole = !fill(fragment); // the page changed since it asked: nothing is swapped, and all of it is asked for
  if (!whole) return;
  event.preventDefault();
  refresh();
});

document.addEventListener("htmx:after:swap", ({ detail }) => {
  if (detail.ctx.target?.id !== "live") return;
  document.title = part().dataset.title || document.title;
  fetched = performance.now();
  trueAt = Date.now();
  show();
});

document.addEventListener("recloser:done", () => refresh());
document.addEventListener("visibilitychange", () => document.hidden || refresh());

let last = performance.now();
setInterval(() => {
  show();
  const own = Number(part()?.dataset.every) * 1000 || Infinity; // a page of what no circuit's version tells
  const every = Math.min(own, state() === "live" ? SLOW : FAST);
  if (performance.now() - last >= every) {
    last = performance.now();
    refresh();
  }
}, 1000);
setTimeout(show, 1500);
