"use strict";
document.documentElement.classList.add("js");
const base = document.body.dataset.base;

// Times: how long ago, in UTC, or in local time. The server writes how long ago.
const modes = ["ago", "utc", "local"];
let times = "ago";
try { times = localStorage.getItem("rowcall-times") || times; } catch { /* this browser keeps nothing */ }
const two = (number) => String(number).padStart(2, "0");
function clockText(at, utc) {
  const [year, month, day, hour, minute, second] = utc
    ? [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
    : [at.getFullYear(), at.getMonth(), at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()];
  return { date: `${year}-${two(month + 1)}-${two(day)}`, time: `${two(hour)}:${two(minute)}:${two(second)}` };
}
function showTimes(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    one.dataset.ago ??= one.textContent;
    const said = clockText(new Date(one.dateTime), times === "utc"), today = clockText(new Date(), times === "utc");
    one.textContent = times === "ago" ? one.dataset.ago : said.date === today.date ? said.time : `${said.date} ${said.time.slice(0, 5)}`;
  }
  for (const one of root.querySelectorAll("[data-at]")) { // on the axis of a chart
    one.dataset.utc ??= one.textContent;
    const said = clockText(new Date(one.dataset.at), times !== "local");
    one.textContent = times !== "local" ? one.dataset.utc : one.dataset.form === "time" ? said.time.slice(0, 5) : said.date.slice(5);
  }
  for (const one of root.querySelectorAll("[data-zone]")) one.textContent = times === "local" ? "local time" : "UTC";
  for (const one of root.querySelectorAll("[data-times]")) one.setAttribute("aria-pressed", String(one.dataset.times === times));
}
function chooseTimes(mode) {
  times = mode;
  try { localStorage.setItem("rowcall-times", mode); } catch { /* until the page is left */ }
  showTimes(document);
}
document.getElementById("times")?.removeAttribute("hidden");
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-times]");
  if (button) chooseTimes(button.dataset.times);
});
showTimes(document);

// Live pages: read the page again, and replace the parts that have changed.
const busy = () => document.hidden || document.querySelector("dialog[open], [popover]:popover-open, [name=ids]:checked, [data-live] :focus") || String(getSelection());
// Rows do not move while the pointer is on them.
const names = (table) => [...table.querySelectorAll("[data-row]")].map((row) => row.querySelector("a")?.getAttribute("href")).join();
// Nor is a field replaced in which someone has typed.
const typed = (part) => [...part.querySelectorAll("input, textarea")].some((one) => one.value !== one.defaultValue);
// Nor a stream that is followed: its values come as they are appended.
const followed = (part) => [...part?.querySelectorAll("[data-stream]") ?? []].map((one) => one.dataset.stream.split("?")[0]).join();
const following = new Map();
function follow() {
  for (const [shown, source] of following) if (document.hidden || !shown.isConnected) { source.close(); following.delete(shown); }
  for (const shown of document.hidden ? [] : document.querySelectorAll("[data-stream]")) {
    if (following.has(shown)) continue;
    const [address] = shown.dataset.stream.split("?"), source = new EventSource(shown.dataset.stream);
    following.set(shown, source);
    source.addEventListener("part", () => { shown.textContent = ""; });
    source.addEventListener("message", (event) => {
      const value = JSON.parse(event.data), atEnd = shown.scrollHeight - shown.scrollTop - shown.clientHeight < 40;
      if (typeof value !== "string") delete shown.dataset.text;
      shown.append("text" in shown.dataset ? value : `${shown.textContent ? "\n" : ""}${event.data}`);
      shown.dataset.stream = `${address}?after=${event.lastEventId}`;
      if (atEnd) shown.scrollTop = shown.scrollHeight;
    });
    source.addEventListener("end", () => source.close());
  }
}
let reading = false;
async function refresh() {
  if (reading || busy() || !document.querySelector("main [data-live]")) return;
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (busy()) return;
    showTimes(found);
    document.title = found.title;
    for (const icon of found.querySelectorAll("link[rel=icon]")) document.querySelector("link[rel=icon]").href = icon.getAttribute("href");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = found.getElementById(part.id);
      if (followed(part) && followed(part) === followed(other)) continue;
      if (!other || other.innerHTML === part.innerHTML || typed(part) || (part.matches("table:hover") && names(part) !== names(other))) continue;
      const at = part.querySelector(".at a")?.getAttribute("href");
      const open = [...part.querySelectorAll("details")].map((one) => one.open);
      part.replaceWith(document.importNode(other, true));
      document.getElementById(part.id).querySelectorAll("details").forEach((one, number) => { if (number in open) one.open = open[number]; });
      if (at) for (const row of document.querySelectorAll("[data-row]")) if (row.querySelector("a")?.getAttribute("href") === at) row.classList.add("at");
    }
    for (const part of found.querySelectorAll("main > [data-live]")) {
      const before = document.getElementById(part.previousElementSibling?.id);
      if (before && !document.getElementById(part.id)) before.after(document.importNode(part, true));
    }
    follow();
  } catch {
    // the server is away: the next refresh tries again
  } finally {
    reading = false;
  }
}
// The server says when something has changed; ages and progress change without that.
const from = document.body.dataset.liveFrom;
// A hidden page has no stream: a browser opens few connections to one host, for all its tabs together.
let stream;
function listen() {
  stream?.close();
  stream = document.hidden ? undefined : new EventSource(from);
  stream?.addEventListener("message", refresh);
}
if (from && document.querySelector("main [data-live]")) {
  listen();
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => stream?.close());
}
(function again() {
  setTimeout(() => refresh().finally(again), document.getElementById("progress") || !from ? 2000 : 10000);
})();

document.addEventListener("visibilitychange", refresh);
document.addEventListener("visibilitychange", follow);
follow();

// Charts: what is under the pointer, in words. Without scripts, the browser shows the titles.
document.addEventListener("pointerover", (event) => {
  const part = event.target.closest(".chart .period, .chart .deploy, .chart .outage");
  for (const tip of document.querySelectorAll(".tip:not([hidden])")) if (!part || !tip.parentElement.contains(part)) tip.hidden = true;
  if (!part) return;
  const title = part.querySelector("title"), tip = part.closest(".plot").querySelector(".tip");
  if (title) { part.dataset.said = title.textContent; title.remove(); }
  tip.textContent = part.dataset.said;
  const plot = tip.parentElement.getBoundingClientRect(), share = (event.clientX - plot.left) / plot.width;
  tip.className = `tip ${share > 0.66 ? "end" : share > 0.33 ? "middle" : ""}`;
  tip.hidden = false;
});

// Selecting jobs.
const bulk = document.getElementById("bulk");
function count() {
  const chosen = document.querySelectorAll("[name=ids]:checked").length;
  bulk.classList.toggle("any", chosen > 0);
  document.getElementById("selected").textContent = chosen ? `${chosen} selected` : "Select";
}
if (bulk) {
  document.addEventListener("change", (event) => {
    if (event.target.id === "select-all") for (const one of document.querySelectorAll("[name=ids]")) one.checked = event.target.checked;
    count();
  });
  count();
}

// Questions: a form that asks first is sent when its dialog was answered with its own button.
document.addEventListener("submit", (event) => {
  const form = event.target, question = form.dataset.confirm, dialog = document.getElementById("ask");
  if (!question || form.dataset.confirmed) return;
  event.preventDefault();
  const yes = dialog.querySelector("[value=yes]");
  document.getElementById("question").textContent = question;
  yes.textContent = event.submitter?.textContent || "Yes";
  yes.className = `button ${event.submitter?.classList.contains("danger") ? "danger" : "primary"}`;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue !== "yes") return;
    form.dataset.confirmed = "yes";
    form.requestSubmit(event.submitter);
  };
  dialog.showModal();
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch { // a page without HTTPS may not write to the clipboard
    getSelection().selectAllChildren(text);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// Keys.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
const place = (key) => document.querySelector(`#nav [data-key="${CSS.escape(key)}"]`);
let went = 0;
function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  if (at >= 0) rows[at].classList.remove("at");
  if (next) { next.classList.add("at"); next.scrollIntoView({ block: "nearest" }); }
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.closest("input")) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const row = document.querySelector("[data-row].at");
  if (Date.now() - went < 1200 && place(event.key)) { place(event.key).click(); return; }
  if (event.key === "g") went = Date.now();
  else if (event.key === "/") {
    event.preventDefault();
    const search = document.getElementById("search");
    if (search) search.focus(); else location.href = base + "/jobs#search";
  } else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "Enter" && row && !event.target.closest("a, button, summary")) row.querySelector("a")?.click();
  else if (event.key === "x" && row) { const box = row.querySelector("[name=ids]"); if (box) { box.checked = !box.checked; count(); } }
  else if (event.key === "t") chooseTimes(modes[(modes.indexOf(times) + 1) % modes.length]);
  else if (event.key === "?") document.getElementById("help").showModal();
});
if (location.hash === "#search") document.getElementById("search")?.focus();
