// Saves reloads: refreshes a page while it is looked at, previews forms while they are filled in, asks questions
// in a dialog, and adds keys. Pages say and do the same without this file.
"use strict";

const body = document.body;
const SECOND = 1000;
const SLOWEST = 60;
const WHOLE_AFTER = 60;
const FIELDS = "input, select, textarea";
const isTyping = () => document.activeElement?.matches(FIELDS) ?? false;
const box = document.createElement("dialog");
const isOccupied = () => isTyping() || box.matches("[open], :popover-open");

// ---- Morphing: make a part of the page equal to another one, and keep every node that can stay. A node that
// ---- stays keeps focus, selection, scroll position, typed text and whether `details` are open.

// A row of a list without a key of its own has that of its link.
const keyOf = (node) =>
  node.nodeType === 1 ? node.id || node.dataset.key || (node.nodeName === "LI" && rowOf(node)?.href) || "" : "";
const rowOf = (node) => node.querySelector("[data-row]");
const isSame = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== 1) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    let found = place;
    while (found && !isSame(found, child)) found = found.nextSibling;
    if (!found) {
      old.insertBefore(document.importNode(child, true), place);
      continue;
    }
    if (found !== place) old.insertBefore(found, place);
    else place = place.nextSibling;
    morph(found, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const focused = document.activeElement;
  chosen.clear();
  morph(document.querySelector("main"), fresh.querySelector("main"));
  for (const part of [".nav", ".clock", "link[rel=icon]"]) {
    const [old, now] = [document, fresh].map((page) => page.querySelector(part));
    if (old && now) morph(old, now);
  }
  // A node that was moved has lost the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  if (document.title !== fresh.title) {
    document.title = fresh.title;
    document.getElementById("announce").textContent = fresh.querySelector("h1")?.textContent ?? fresh.title;
  }
  body.dataset.revision = fresh.body.dataset.revision ?? "";
  body.dataset.live = fresh.body.dataset.live ?? "";
  showSwitch();
}

// ---- Live: asks again every few seconds, while the page is seen and nothing is being typed.

let failures = 0;
let wholeAt = 0;
let lost = "";

const isLive = () => body.dataset.live && localStorage.getItem("dutiful-live") !== "off";
// Ticks are due on whole seconds. A page that is asked for half a second later does not compete with the starts
// of many runs, and shows all of them.
const wait = () => {
  const at = Date.now() + Math.min(SLOWEST, Number(body.dataset.live || SLOWEST) * 2 ** failures) * SECOND;
  return at - (at % SECOND) + SECOND / 2 - Date.now();
};

// Run work that asks the service, and mark the page as busy meanwhile.
async function busily(work, ...given) {
  const main = document.querySelector("main");
  main.setAttribute("aria-busy", "true");
  try {
    await work(...given);
  } finally {
    main.removeAttribute("aria-busy");
  }
}

async function refresh() {
  const asked = performance.now();
  // Distances such as "3 min ago" age although nothing changes: once a minute the whole page is asked for.
  const headers = asked < wholeAt ? { "Dutiful-Revision": body.dataset.revision } : {};
  const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(20 * SECOND) });
  if (answer.redirected) return tell("Your session has ended.", answer.url);
  if (answer.status !== 204 && !answer.ok) throw new Error(answer.status);
  if (answer.status === 200) {
    const html = await answer.text();
    if (isOccupied() || document.hidden) return;
    wholeAt = asked + WHOLE_AFTER * SECOND;
    show(html);
  }
  failures = 0;
  lost = "";
  tell("");
}

async function tick() {
  if (isLive() && !document.hidden && !chosen.size && !isOccupied()) {
    try {
      await busily(refresh);
    } catch {
      failures += 1;
      lost ||= document.querySelector(".clock time")?.textContent ?? "";
      tell(`Not reached since ${lost}.`);
    }
  }
  setTimeout(tick, wait());
}

function tell(text, href = "") {
  const notice = document.getElementById("unreached");
  notice.textContent = text;
  notice.hidden = !text;
  if (!href) return;
  const link = document.createElement("a");
  link.href = href;
  link.textContent = "Sign in again";
  notice.append(" ", link);
}

function showSwitch() {
  // Without the attribute the button is invisible and keeps its place, so that nothing moves.
  if (body.dataset.live) document.getElementById("live").setAttribute("aria-pressed", String(Boolean(isLive())));
}

function toggleLive() {
  if (!body.dataset.live) return;
  localStorage.setItem("dutiful-live", isLive() ? "off" : "on");
  showSwitch();
}

// ---- Distances under a minute count down between two refreshes.

function countDown() {
  for (const each of document.querySelectorAll("[data-in]")) {
    const left = Number(each.dataset.in) - 1;
    if (left < 0) continue;
    each.dataset.in = String(left);
    each.textContent = left ? `in ${left} s` : "now";
  }
}

// ---- Forms that show their effect while they are filled in.

let pending = 0;
let newest = 0;

async function preview(form) {
  const mine = (newest += 1);
  const data = new URLSearchParams(new FormData(form));
  const url = new URL(form.action);
  const isPost = form.method === "post";
  if (!isPost) url.search = data;
  let answer;
  try {
    answer = await fetch(url, isPost ? { method: "POST", body: data } : {});
  } catch {
    return;
  }
  if (answer.status === 401) tell("Your session has ended. Saving asks for a new token, and keeps what you typed.");
  else if (answer.redirected) tell("Your session has ended.", answer.url);
  const html = await answer.text();
  // A login or a refusal must not take the place of a filled-in form.
  if (mine !== newest || !html.includes("data-preview")) return;
  if (!isPost) history.replaceState(null, "", url);
  show(html);
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-preview]");
  if (!form) return;
  clearTimeout(pending);
  pending = setTimeout(busily, 200, preview, form);
});

// ---- Over the page: a link with `data-dialog` opens the question of its page as a dialog, and a link to the
// ---- verdict on a tick shows that verdict in the panel of this page, or else beside itself.

const QUESTION = "main > .head, main > .card";

function fill(html, parts) {
  const found = new DOMParser().parseFromString(html, "text/html").querySelectorAll(parts);
  box.ariaLabel = found[0].querySelector("h1, h3").textContent;
  box.replaceChildren(...found);
}

async function reveal(link) {
  const href = link.getAttribute("href");
  const answer = await fetch(href);
  if (!answer.ok || answer.redirected) throw new Error(answer.status);
  const html = await answer.text();
  const panel = document.querySelector("main #why");
  // The element that has the focus gets it back when the dialog closes.
  link.focus({ preventScroll: true });
  if ("dialog" in link.dataset) {
    fill(html, QUESTION);
    box.popover = null;
    box.showModal();
  } else if (panel) {
    history.replaceState(null, "", href);
    show(html);
    panel.scrollIntoView({ block: "nearest" });
    document.getElementById("announce").textContent = panel.querySelector("h3").textContent;
  } else {
    fill(html, "#why");
    box.querySelector("[data-close]").hidden = false;
    box.popover = "auto";
    box.togglePopover({ source: link, force: true });
  }
}

async function send(form, button) {
  const data = new URLSearchParams(new FormData(form, button));
  button.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: data });
    if (answer.redirected) return location.assign(answer.url);
    fill(await answer.text(), QUESTION);
    box.querySelector("[aria-describedby], .primary")?.focus();
  } catch {
    button.disabled = false;
    const problem = Object.assign(document.createElement("p"), { className: "problem", role: "alert" });
    problem.textContent = "The service did not answer. It may have been done all the same.";
    form.prepend(problem);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-dialog], a[href$='#why']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  busily(reveal, link).catch(() => location.assign(link.getAttribute("href")));
});
box.addEventListener("click", (event) => {
  if (!event.target.closest("[data-close]")) return;
  event.preventDefault();
  if (box.popover) box.hidePopover();
  else box.close();
});
box.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  event.preventDefault();
  busily(send, event.target, event.submitter);
});
box.className = "card";
body.append(box);

// ---- Keys. None of them acts: those for actions open the question.

const GO = { o: "/", s: "/ui/schedules", r: "/ui/runs", c: "/ui/calendar", a: "/ui/audit" };
const OPEN = { w: "/ui/why", "?": "/ui/me#keys" };
// The page of a fleet has no field to find schedules, and none of the pages that these keys lead to.
const find = document.getElementById("find");
let going = false;

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const place = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, place + by))]?.focus();
}

// Selected rows wait for an action above the list, and the page does not refresh itself meanwhile.
const chosen = new Set();

function choose(row) {
  const form = document.getElementById("chosen");
  const id = row?.textContent;
  if (!form || !id) return;
  if (chosen.delete(id)) row.parentNode.querySelector(".mark").remove();
  else {
    const mark = document.createElement("span");
    mark.className = "mark run";
    mark.textContent = "selected";
    chosen.add(id);
    row.after(" ", mark);
  }
  form.elements.ids.value = [...chosen].join(" ");
  form.querySelector("span").textContent = `${chosen.size} selected`;
  form.hidden = !chosen.size;
}

function press(key) {
  if (going) {
    going = false;
    if (GO[key] && (find || key === "o")) location.assign(GO[key]);
    return true;
  }
  if (key === "g") going = true;
  else if (key === "/") find?.focus();
  else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
  else if (key === "x") choose(document.activeElement.closest("[data-row]"));
  else if (key === ".") toggleLive();
  else if (find && OPEN[key]) location.assign(OPEN[key]);
  else {
    const link = document.querySelector(`main a[data-shortcut="${key}"]`);
    link?.click();
    return Boolean(link);
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isTyping()) document.activeElement.blur();
  if (isOccupied() || event.ctrlKey || event.metaKey || event.altKey || body.dataset.keys === "off") return;
  if (press(event.key)) event.preventDefault();
});

async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "✓";
  document.getElementById("announce").textContent = "Copied";
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  const sign = event.target.closest(".lines .sign");
  if (sign) choose(rowOf(sign.parentNode));
  if (event.target.id === "live") toggleLive();
});

showSwitch();
setInterval(countDown, SECOND);
setTimeout(tick, wait());
