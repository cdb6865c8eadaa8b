// What proving a tool down takes, as one types. The server's figures stand until something is typed.
const proof = document.getElementById("proof");
const form = document.querySelector("form.policy");

const typed = (name) => form.elements[name]?.value.trim() ?? "";
const inherited = (name) => form.elements[name]?.closest(".value").querySelector(".origin").dataset.inherited ?? "";
const said = (name) => typed(name) || inherited(name);

function threshold() {
  if (said("never_open") === "yes") return null;
  const steps = Number(proof.dataset.steps);
  const short = Number(said("short_run_steps"));
  const names = ["consecutive_failures", ...(steps <= short ? ["short_run_consecutive_failures"] : [])];
  const limits = names.map((name) => Number.parseInt(said(name), 10)).filter((limit) => limit > 0);
  return limits.length ? Math.min(...limits) : null;
}

function write(name, text) {
  for (const element of proof.querySelectorAll(`[data-proof="${name}"]`)) element.textContent = text;
}

function show() {
  const limit = threshold();
  const share = limit === null ? null : Math.min(1, limit / Number(proof.dataset.steps));
  const requests = limit === null ? null : limit * Number(proof.dataset.attempts);
  write("threshold", limit ?? "no");
  write("share", share === null ? "—" : `${Math.round(share * 100)} %`);
  write("requests", requests === null ? "—" : String(Math.round(requests * 10) / 10));
}

if (proof && form) form.addEventListener("input", show);
