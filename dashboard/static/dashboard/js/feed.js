// One stream a browser, however many tabs: the visible tab that holds the lock listens and tells the others.
// A hidden tab holds no connection. Read by fetch, not EventSource: a heartbeat must be seen, and a 401 too.
const environment = document.documentElement.dataset.environment;
const name = `recloser-live:${environment}`;
const SILENCE = 25_000;

const channel = new BroadcastChannel(name);
channel.addEventListener("message", (event) => (event.data.ask ? reply() : announce(event.data)));

let heardAt = -Infinity; // while this tab listens
let known = null; // the version it last heard

function reply() {
  if (performance.now() - heardAt < SILENCE) channel.postMessage({ alive: true, ...(known === null ? {} : { changed: known }) });
}

function announce(message) {
  document.dispatchEvent(new CustomEvent("recloser:feed", { detail: message }));
}

function tell(message) {
  announce(message);
  channel.postMessage(message);
}

async function listen(leaving) {
  const silent = new AbortController();
  let watchdog = setTimeout(() => silent.abort(), SILENCE);
  const response = await fetch(`/live?environment=${encodeURIComponent(environment)}`, {
    headers: { Accept: "text/event-stream" },
    credentials: "same-origin",
    cache: "no-store",
    signal: AbortSignal.any([leaving, silent.signal]),
  });
  if (!response.ok) throw new Error(`/live answered ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    clearTimeout(watchdog);
    watchdog = setTimeout(() => silent.abort(), SILENCE);
    heardAt = performance.now();
    tell({ alive: true });
    const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = events.pop();
    events.forEach(read);
  }
}

function read(text) {
  const fields = Object.fromEntries(text.split("\n").map((line) => line.split(/:\s?(.*)/s).slice(0, 2)));
  if (fields.event !== "changed") return;
  known = version(fields.data);
  tell({ changed: known });
}

function version(data) {
  try {
    return JSON.parse(data).version ?? null;
  } catch {
    return null;
  }
}

// Ends early where this tab leaves: another one need not wait for us.
function pause(ms, leaving) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    leaving.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
  });
}

async function lead(leaving) {
  for (let wait = 1000; !leaving.aborted; wait = Math.min(wait * 2, 30_000)) {
    const began = Date.now();
    await listen(leaving).catch(() => {});
    heardAt = -Infinity;
    if (leaving.aborted) return;
    tell({ lost: true });
    if (Date.now() - began > 60_000) wait = 1000;
    await pause(wait * (0.75 + Math.random() / 2), leaving);
  }
}

let leaving = null;

function join() {
  if (document.hidden || leaving || !navigator.locks) return; // without locks (plain http) the page polls
  leaving = new AbortController();
  const { signal } = leaving;
  navigator.locks.request(name, { signal }, () => lead(signal)).catch(() => {});
}

function leave() {
  leaving?.abort();
  leaving = null;
}

function arrive() {
  channel.postMessage({ ask: true }); // another tab may listen already
  join();
}

document.addEventListener("visibilitychange", () => (document.hidden ? leave() : arrive()));
addEventListener("pagehide", leave);
addEventListener("pageshow", arrive);
