// Times: relative ones tick, absolute ones stand in the viewer's zone. The server's clock is the measure.
let offset = 0; // server minus browser, in ms, from the fragment on show

const stamp = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });

function span(seconds) {
  const value = Math.max(0, seconds);
  if (value < 100) return `${Math.round(value)} s`;
  const minutes = Math.round(value / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (hours < 48) return rest ? `${hours} h ${rest} min` : `${hours} h`;
  return `${Math.round(hours / 24)} d`;
}

function relative(element, at, now) {
  if ("in" in element.dataset) return at <= now ? "due now" : `in ${span((at - now) / 1000)}`;
  const past = (now - at) / 1000;
  if (element.dataset.ago === "bare") return span(past);
  return past < 1 ? "just now" : `${span(past)} ago`;
}

function absolute(element, at, now) {
  const sameDay = new Date(at).toDateString() === new Date(now).toDateString();
  return element.dataset.at === "time" || sameDay ? hour.format(at) : `${day.format(at)}, ${hour.format(at)}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  const now = Date.now() + offset;
  for (const element of document.querySelectorAll("time[data-ago], time[data-in]")) {
    write(element, relative(element, Date.parse(element.dateTime), now));
  }
}

function settle() {
  const live = document.getElementById("live");
  if (live) offset = Number(live.dataset.now) * 1000 - Date.now();
  const now = Date.now() + offset;
  for (const element of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(element.dateTime);
    element.title = stamp.format(at);
    if ("at" in element.dataset) write(element, absolute(element, at, now));
  }
  tick();
}

settle();
setInterval(tick, 1000);
document.addEventListener("htmx:after:swap", settle);
