// Sheets, notes, copying: small help that the pages do without when scripts are off.
document.documentElement.classList.add("js");

const sheet = document.getElementById("sheet");
const notes = document.getElementById("notes");

function openSheet() {
  if (!sheet.open) sheet.showModal();
  const first = sheet.querySelector("[aria-invalid='true'], textarea, input:not([type='hidden']), select, button");
  first?.focus();
}

function note(text) {
  const box = document.createElement("div");
  box.className = "toast problem";
  const words = document.createElement("p");
  words.textContent = text;
  box.append(words);
  notes.replaceChildren(box);
}

let fading;
function fadeNotes() {
  clearTimeout(fading);
  fading = setTimeout(() => notes.querySelector(".problem") ?? notes.replaceChildren(), 8000);
}

document.addEventListener("htmx:after:swap", ({ detail }) => {
  const { target } = detail.ctx; // an element, or the selector of HX-Retarget
  const id = typeof target === "string" ? target.slice(1) : target?.id;
  if (id === "sheet-in") openSheet();
  if (id === "notes") fadeNotes();
});

document.addEventListener("recloser:done", () => sheet.close());

// Every request names the build that this page is of; the server says when that is not its own any more.
document.addEventListener("htmx:config:request", ({ detail }) => {
  detail.ctx.request.headers["X-Recloser-Build"] = document.documentElement.dataset.build;
});
document.addEventListener("recloser:outdated", () => {
  document.getElementById("outdated").hidden = false;
});

// An answer that no part of the page was made for is told, not swapped in.
document.addEventListener("htmx:before:response", (event) => {
  const { response, hx } = event.detail.ctx;
  if (response.status < 400 || hx.redirect || hx.retarget || response.status === 422) return;
  event.preventDefault();
  if (event.detail.ctx.request.method !== "GET") note(`The server answered ${response.status}. Nothing was changed; load the page anew and try again.`);
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx?.request.method === "POST") note("The server could not be reached. Whether it was done is not known: look before you try again.");
});

document.addEventListener("click", (event) => {
  const closing = event.target.closest("[data-close]");
  if (closing && sheet.open) {
    event.preventDefault();
    sheet.close();
  }
  if (event.target === sheet) sheet.close();
  event.target.closest("[data-dismiss]")?.closest(".toast").remove();
  if (event.target.closest("[data-reload]")) {
    event.preventDefault();
    location.reload();
  }
  const copying = event.target.closest("[data-copy]");
  if (copying) copy(copying);
});

// Without a secure connection there is no clipboard for scripts, but what is selected can be copied all the same.
function copySelected(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

// "Copied" stands while the button has the focus, for two seconds at least; no refresh takes it away before.
async function copy(button) {
  if (!(await copied(button.dataset.copy))) return note(`The browser does not let pages copy. It is: ${button.dataset.copy}`);
  button.focus();
  if ("copied" in button.dataset) return;
  const label = button.getAttribute("aria-label");
  button.dataset.copied = "";
  button.setAttribute("aria-label", "Copied");
  const left = new Promise((done) => button.addEventListener("blur", done, { once: true }));
  await Promise.all([left, new Promise((done) => setTimeout(done, 2000))]);
  if (label) button.setAttribute("aria-label", label);
  else button.removeAttribute("aria-label");
  delete button.dataset.copied;
}

for (const menu of document.querySelectorAll("details.switch")) {
  document.addEventListener("click", (event) => menu.contains(event.target) || menu.removeAttribute("open"));
  menu.addEventListener("keydown", (event) => event.key === "Escape" && menu.removeAttribute("open"));
}

// Whoever stood on what a refresh takes away stands on what it stood in afterwards, not at the top of the page.
let stood = [];
document.addEventListener("htmx:before:swap", () => {
  stood = [];
  for (let one = document.activeElement; one && one !== document.body; one = one.parentElement) stood.push(one);
});
document.addEventListener("htmx:after:swap", () => {
  const place = stood.find((one) => one.isConnected && one.checkVisibility());
  if (!place || document.activeElement !== document.body) return;
  if (place.tabIndex < 0) place.tabIndex = -1;
  place.focus({ preventScroll: true });
});

// A refresh keeps open what the reader opened, what a button has just said, and where the focus stands.
const kept = (element, name) =>
  (name === "open" && element.localName === "details") ||
  (name === "tabindex" && element === document.activeElement) ||
  ("copied" in element.dataset && ["aria-label", "data-copied"].includes(name));
htmx.registerExtension("keep-open", {
  htmx_before_morph_attr: (element, { attrName }) => !kept(element, attrName),
});

// htmx would begin a task later, after the first key or click could have come.
htmx.process(document.body);

fadeNotes();
