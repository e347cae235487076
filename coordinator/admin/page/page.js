// Draws what GET /v1/watch sends, and calls the control API. Names come from clients: they are set as text, never as HTML.
"use strict";

const TITLES = {
  expire: "End its session now, as if its heartbeats had not come",
  kick: "Remove it, as if it had left; its next request says UNKNOWN_MEMBER_ID",
  fence: "Remove it, and answer its next heartbeat with an error that ends it",
};
const TITLES_OF_RECORDS = {
  expire: "End their lock now: they are delivered again, or archived after the last delivery",
  accept: "Accept them for their member: nobody gets them again",
  reject: "Archive them: nobody gets them again",
};
const STEPS = { // at which a group of a type can be held: the first is the one that moves it
  classic: ["join", "sync", "commit", "heartbeat"],
  consumer: ["assignment", "commit", "join", "sync", "heartbeat"],
  share: ["assignment", "acquire", "acknowledge"],
  streams: ["assignment", "commit"],
};
const $ = (id) => document.getElementById(id);
const DONE = new Set(["acknowledged", "archived"]);
const EVENTS_MAX = 500;
const NAME_MAX = 120;
const SETTLED = { Stable: "good", Empty: "", Dead: "bad" };

let groups = new Map(); // summaries by group id
let rows = new Map(); // table rows by group id
let total = 0;
let open = ""; // the group that is watched
let detail = null; // its members and partitions
let isKnown = false; // whether the server has said anything since the page watches this group
let source = null;
let latest = 0; // the number of the last event that is shown
let clock = null; // what the server said, and when
let faults = [];

// -- text ------------------------------------------------------------------------------------------------------------

// Characters that show nothing, or turn the text around them: controls, marks of direction, and zero widths.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

function visible(text) {
  return String(text).replace(UNSEEN, (one) => "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));
}

function shorten(text, most = NAME_MAX) {
  const letters = Array.from(visible(text));
  return letters.length > most ? letters.slice(0, most).join("") + "…" : letters.join("");
}

function make(tag, { text, title, kind, className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (title) element.title = visible(title);
  if (kind !== undefined) element.dataset.kind = kind;
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function name(text, most = NAME_MAX) {
  return make("bdi", { text: text === "" ? "(empty)" : shorten(text, most), title: Array.from(text).length > most ? text : "" });
}

const number = (value) => (value === null || value === undefined ? "-" : value.toLocaleString("en"));
const chip = (text, kind = "") => make("span", { className: "chip", text, kind });
const stateChip = (state) => chip(state, SETTLED[state] ?? "busy");
const clockTime = (ms) => new Date(ms).toISOString().slice(11, 23);

function ranges(numbers) {
  const runs = [];
  for (const one of numbers) {
    const last = runs.at(-1);
    if (last && last[1] === one - 1) last[1] = one;
    else runs.push([one, one]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

let silence = 0;
function say(text, kind = "") {
  $("said").textContent = text;
  $("said").dataset.kind = kind;
  clearTimeout(silence);
  silence = setTimeout(() => ($("said").textContent = ""), kind ? 8000 : 3000);
}

// -- what the server sends -------------------------------------------------------------------------------------------

function watch() {
  source?.close();
  source = new EventSource("v1/watch?" + new URLSearchParams({ group: open, prefix: $("search").value }));
  isKnown = false;
  source.onopen = () => showLink("wait", "connected, waiting for the groups …");
  source.onerror = () => showLink("wait", "connecting again …");
  source.onmessage = (message) => take(JSON.parse(message.data));
}

function showLink(state, text) {
  $("link").dataset.state = state;
  $("link").textContent = text;
}

function take(change) {
  if (change.first) groups = new Map();
  for (const one of change.gone) groups.delete(one);
  for (const one of change.groups) groups.set(one.group, one);
  total = change.total;
  clock = { ...change.clock, at: performance.now() };
  if (change.latest < latest) clearEvents(); // another server
  if (change.faults) faults = change.faults;
  if ($("link").dataset.state !== "live") showLink("live", "live");
  isKnown = true;
  if (change.group) detail = change.group;
  if (change.is_group_gone || (change.first && !change.group)) detail = null;
  showGroups(change.first || change.gone.length > 0, change.groups);
  showEvents(change.events);
  latest = Math.max(change.latest, 0);
  if (change.faults) showFaults();
  if (change.group || change.is_group_gone || change.first) showGroup();
  showClock();
}

// -- the list --------------------------------------------------------------------------------------------------------

function showGroups(isWhole, changed) {
  let isNew = isWhole;
  for (const one of changed) {
    const row = rows.get(one.group);
    if (row) fillRow(row, one);
    else {
      rows.set(one.group, fillRow(make("tr"), one));
      isNew = true;
    }
  }
  if (isNew) {
    for (const id of rows.keys()) if (!groups.has(id)) rows.delete(id);
    const ids = [...groups.keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    const focused = document.activeElement;
    $("groups").replaceChildren(...ids.map((id) => rows.get(id)));
    if (focused?.isConnected && focused.classList.contains("pick")) focused.focus();
  }
  markOpen();
  $("no-groups").hidden = groups.size > 0;
  $("count").textContent = groups.size < total ? `${number(groups.size)} of ${number(total)}: search for the others` : number(total);
}

function fillRow(row, one) {
  const before = row.dataset.state;
  const pick = row.querySelector(".pick") ?? make("button", { type: "button", className: "pick" }, name(one.group));
  pick.onclick = () => openGroup(one.group);
  row.replaceChildren(
    make("td", {}, pick),
    make("td", {}, stateChip(one.state)),
    make("td", { className: "n", text: number(one.members) }),
    make("td", { className: "n wide", text: number(one.generation) }),
    make("td", { className: "n", text: number(one.lag) }),
  );
  row.dataset.state = one.state;
  if (before !== undefined && before !== one.state) refresh(row);
  return row;
}

function refresh(element) {
  element.classList.remove("fresh");
  void element.offsetWidth; // begin the animation anew
  element.classList.add("fresh");
}

function markOpen() {
  for (const [id, row] of rows) row.toggleAttribute("aria-current", false);
  rows.get(open)?.setAttribute("aria-current", "true");
}

function openGroup(id) {
  if (id === open) return;
  open = id;
  detail = null;
  history.replaceState(null, "", id ? "#group=" + encodeURIComponent(id) : location.pathname);
  watch(); // first: nothing is known of this group yet
  clearEvents();
  showGroup();
  markOpen();
}

// -- one group -------------------------------------------------------------------------------------------------------

function showGroup() {
  $("group").hidden = !open;
  $("main").classList.toggle("is-open", open !== "");
  $("of").replaceChildren(open ? "of " : "of all groups", ...(open ? [name(open)] : []));
  if (!open) return;
  $("group-title").replaceChildren(name(open, 400));
  const view = detail?.view;
  $("group-actions").hidden = !view;
  if (!view) {
    $("facts").textContent = isKnown ? "There is no such group now." : "Loading …";
    $("members").replaceChildren();
    $("positions").replaceChildren();
    $("in-flight").hidden = true;
    $("problem").textContent = "";
    return;
  }
  const lags = detail.positions.map((one) => one.lag).filter((lag) => lag !== null);
  const facts = [view.type, `${view.counts_by} ${view.generation}`, view.members.length === 1 ? "1 member" : `${number(view.members.length)} members`];
  if (view.assignor) facts.push(`assignor ${shorten(view.assignor, 40)}`);
  if (lags.length) facts.push(`lag ${number(lags.reduce((sum, lag) => sum + Math.max(0, lag), 0))}`);
  const beyond = lags.filter((lag) => lag < 0).length;
  if (beyond) facts.push(`${number(beyond)} committed offset${beyond === 1 ? "" : "s"} beyond the end`);
  setChildren($("facts"), stateChip(view.state), ...facts.flatMap((text) => [" ", chip(text)]));
  $("problem").textContent = view.problem ? shorten(view.problem, 400) : "";
  const steps = STEPS[view.type] ?? STEPS.classic;
  if ($("hold-at").dataset.type !== view.type) $("hold-at").replaceChildren(...steps.map((step) => make("option", { text: step })));
  $("hold-at").dataset.type = view.type;
  showMembers(view);
  showPositions(view);
  showRecords(view);
}

// Replaces the children only if they differ, so that neither a focus nor what a screen reader says is lost.
function setChildren(element, ...children) {
  const holder = make("div", {}, ...children);
  if (holder.innerHTML !== element.innerHTML) element.replaceChildren(...holder.childNodes);
}

function showMembers(view) {
  const old = new Map([...$("members").children].map((row) => [row.dataset.member, row]));
  $("members").replaceChildren(...view.members.map((one) => {
    const key = JSON.stringify([one, view.group]);
    const row = old.get(one.member_id);
    if (row?.dataset.key === key) return row;
    return fillMember(make("tr", { "data-member": one.member_id, "data-key": key }), view.group, one, row !== undefined);
  }));
  if (!view.members.length) $("members").append(make("tr", {}, make("td", { colspan: 4, className: "quiet", text: "none" })));
}

function fillMember(row, group, one, isKnown) {
  const client = make("td", {}, name(one.instance_id ?? one.client_id, 40));
  if (one.instance_id !== null) client.append(" ", make("span", { className: "quiet", text: "static" }));
  if (one.waits_in) client.append(" ", chip(`waits in ${one.waits_in}`, "busy"));
  const assignment = make("td");
  const topics = Object.entries(one.assignment).filter(([, partitions]) => partitions.length);
  for (const [topic, partitions] of topics) assignment.append(make("div", {}, name(topic, 60), `: ${ranges(partitions)}`));
  if (!topics.length) assignment.append(make("span", { className: "quiet", text: "nothing" }));
  for (const [role, tasks] of Object.entries(one.tasks ?? {}).filter(([, some]) => some.length)) assignment.append(make("div", {}, make("span", { className: "quiet", text: `${role} tasks ` }), shorten(tasks.join(", "), 400)));
  if (one.process_id) assignment.append(make("div", { className: "quiet", text: `process ${shorten(one.process_id, 40)}` }));
  const verbs = ["expire", "kick", "fence"].map((verb) =>
    Object.assign(make("button", { type: "button", text: verb[0].toUpperCase() + verb.slice(1), title: TITLES[verb], "aria-label": `${verb} ${shorten(one.client_id, 40)}` }), {
      onclick: () => call("POST", groupPath(group, `/members/${encodeURIComponent(one.member_id)}/${verb}`), {}, `${verb}: done`),
    }),
  );
  row.append(client, assignment, make("td", { className: "wide" }, name(one.member_id, 24), make("div", { className: "quiet" }, name(one.host, 40))), make("td", {}, make("div", { className: "row" }, ...verbs)));
  if (isKnown) refresh(row);
  return row;
}

function showPositions(view) {
  const owners = new Map(view.members.map((one) => [one.member_id, one.instance_id ?? one.client_id]));
  const positions = view.type === "share" ? detail.positions.map(withQueue) : detail.positions;
  const most = Math.max(1, ...positions.map((one) => one.lag ?? 0));
  $("done-until").textContent = view.type === "share" ? "Start" : "Committed";
  $("positions").replaceChildren(...positions.map((one) => {
    const lag = make("td", { className: "n lag", text: number(one.lag) });
    lag.style.backgroundSize = `${(100 * Math.max(0, one.lag ?? 0)) / most}% 100%`;
    const owner = one.owners.length ? name(one.owners.map((id) => owners.get(id) ?? id).join(", "), 80) : make("span", { className: "quiet", text: "nobody" });
    return make("tr", {}, make("td", {}, name(one.topic, 60), `:${one.partition}`), make("td", { className: "n", text: number(one.committed) }), make("td", { className: "n", text: number(one.end) }), lag, make("td", {}, owner));
  }));
  if (!detail.positions.length) $("positions").append(make("tr", {}, make("td", { colspan: 5, className: "quiet", text: "none" })));
}

// A partition of a share group: what is before the start of its queue is done, and so are some of its records in flight.
function withQueue(one) {
  const queue = detail.records.find((each) => each.topic === one.topic && each.partition === one.partition);
  if (!queue) return one;
  const done = queue.records.filter((run) => DONE.has(run.state)).reduce((sum, run) => sum + run.last - run.first + 1, 0);
  return { ...one, committed: queue.start, lag: one.end === null ? null : Math.max(0, one.end - queue.start - done) };
}

// What a share group has in flight. The lock's end is drawn anew with the clock.
function showRecords(view) {
  $("in-flight").hidden = view.type !== "share";
  const members = new Map(view.members.map((one) => [one.member_id, one.client_id]));
  const runs = detail.records.flatMap((one) => one.records.map((run) => ({ topic: one.topic, partition: one.partition, ...run })));
  const old = new Map([...$("records").children].map((row) => [row.dataset.key, row]));
  $("records").replaceChildren(...runs.map((run) => {
    const key = JSON.stringify(run);
    return old.get(key) ?? fillRun(make("tr", { "data-key": key }), view.group, run, members);
  }));
  if (!runs.length) $("records").append(make("tr", {}, make("td", { colspan: 6, className: "quiet", text: "nothing" })));
}

function fillRun(row, group, run, members) {
  const offsets = run.first === run.last ? `${run.first}` : `${run.first}-${run.last}`;
  const verbs = DONE.has(run.state) ? [] : run.member ? ["expire", "accept", "reject"] : ["accept", "reject"];
  const buttons = verbs.map((verb) => {
    const body = { topic: run.topic, partition: run.partition, first: run.first, last: run.last, do: verb };
    const button = make("button", { type: "button", text: verb[0].toUpperCase() + verb.slice(1), title: TITLES_OF_RECORDS[verb], "aria-label": `${verb} ${offsets}` });
    button.onclick = () => call("POST", groupPath(group, "/records"), body, `${verb}: done`);
    return button;
  });
  const lock = make("td", { className: "n", "data-until": run.locked_until_ms ?? "" });
  row.append(make("td", {}, name(run.topic, 60), `:${run.partition} ${offsets}`), make("td", {}, chip(run.state, run.member ? "busy" : "")), make("td", { className: "n", text: number(run.deliveries) }), make("td", {}, run.member ? name(members.get(run.member) ?? run.member, 40) : ""), lock, make("td", {}, make("div", { className: "row" }, ...buttons)));
  return row;
}

function showLocks(now) {
  for (const cell of document.querySelectorAll("#records [data-until]")) {
    cell.textContent = cell.dataset.until === "" ? "" : `${Math.max(0, (Number(cell.dataset.until) - now) / 1000).toFixed(1)} s`;
  }
}

// -- the timeline ----------------------------------------------------------------------------------------------------

function clearEvents() {
  latest = 0;
  $("events").replaceChildren();
  $("no-events").hidden = !isKnown;
}

function showEvents(events) {
  for (const one of events) {
    if (one.number <= latest) continue;
    const text = make("span");
    if (!open) text.append(name(one.group, 60), " ");
    if (one.from !== one.to) text.append(make("span", { className: "move", text: `${one.from} → ${one.to}` }), " ");
    text.append(make("span", { className: "quiet", text: `(${one.counts_by} ${one.generation})` }), " ", make("bdi", { text: shorten(one.cause.detail, 300) }));
    const item = make("li", { className: "fresh", "data-number": one.number, "data-cause": one.cause.kind }, make("time", { text: clockTime(one.at_ms), title: new Date(one.at_ms).toISOString() }), text);
    $("events").prepend(item);
  }
  while ($("events").children.length > EVENTS_MAX) $("events").lastChild.remove();
  $("no-events").hidden = $("events").children.length > 0;
}

// -- the clock -------------------------------------------------------------------------------------------------------

const shownMs = () => clock.now_ms + (performance.now() - clock.at) * clock.rate;

function showClock() {
  if (!clock) return;
  const now = shownMs();
  $("time").textContent = new Date(now).toISOString().replace("T", " ").slice(0, 21);
  $("mode").textContent = { real: "runs", frozen: "frozen", rate: `runs ${clock.rate} times as fast` }[clock.mode];
  $("mode").dataset.kind = clock.mode === "real" ? "" : "busy";
  const owners = new Map((detail?.view.members ?? []).map((one) => [one.member_id, one.instance_id ?? one.client_id]));
  const items = clock.deadlines.slice(0, 3).map((one) => {
    const who = owners.get(one.member) ?? one.member;
    return make("li", { text: `in ${((one.at_ms - now) / 1000).toFixed(1)} s: ${one.kind}${who ? ` of ${shorten(who, 40)}` : ""}, ${one.effect}` });
  });
  $("deadlines").replaceChildren(...(open ? items : []));
  showLocks(now);
}
setInterval(showClock, 100);

// -- faults ----------------------------------------------------------------------------------------------------------

function describeFault(one) {
  const on = Object.entries(one.on).filter(([, value]) => value).map(([key, value]) => `${key} ${shorten(value, 60)}`).join(", ") || "every request";
  const isSet = ([key, value]) => value || (key === "truncate" && value === 0);
  const effects = Object.entries(one.do).filter(isSet);
  const held = one.held ? `, holds ${one.held}` : "";
  return `#${one.number} ${on}: ${effects.map(([key, value]) => (value === true ? key : `${key} ${value}`)).join(", ")} (${one.hits} of ${one.count ?? "any number"}${held})`;
}

function showFaults() {
  $("fault-count").textContent = faults.length ? number(faults.length) : "none";
  $("fault-list").replaceChildren(...faults.slice(0, 100).map((one) => {
    const end = make("button", { type: "button", text: "End", "aria-label": `end fault ${one.number}` });
    end.onclick = () => call("DELETE", `/faults/${one.number}`, undefined, `fault ${one.number} ended`);
    return make("li", {}, make("bdi", { text: describeFault(one) }), end);
  }));
}

// -- calls -----------------------------------------------------------------------------------------------------------

const groupPath = (group, rest = "") => `/groups/${encodeURIComponent(group)}${rest}`;

async function call(method, path, body, done) {
  try {
    const answer = await fetch("v1" + path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) {
      let sentence = text;
      try { sentence = JSON.parse(text).error ?? text; } catch { /* it is a sentence already */ }
      say(shorten(sentence, 300), "bad");
      return null;
    }
    if (done) say(done);
    return JSON.parse(text);
  } catch (error) {
    say(`no answer: ${error.message}`, "bad");
    return null;
  }
}

const keepAlive = () => $("keep-alive").value;

async function moved(answer) {
  if (answer) say(`${answer.fired.length + answer.more} timers fired; clients learn of it by their ${answer.clients_learn_by}`);
}

async function advance() {
  await moved(await call("POST", "/clock/advance", { ms: Math.round(Number($("seconds").value) * 1000), keep_alive: keepAlive() }));
}

function setMode(mode) {
  return call("PUT", "/clock", mode === "rate" ? { mode, rate: 10 } : { mode });
}

function actOnGroup(verb) {
  if (verb === "close") return openGroup("");
  if (verb === "forget") return call("DELETE", groupPath(open), undefined, "removed");
  const body = verb === "hold" ? { at: $("hold-at").value } : verb === "rebalance" ? { reason: "asked for on the page" } : {};
  return call("POST", groupPath(open, `/${verb}`), body, `${verb}: done`);
}

function addFault() {
  const [effect, value] = [$("fault-do").value, $("fault-value").value];
  const what = { error: { error: value }, delay_ms: { delay_ms: Number(value) }, drop: { drop: "response" }, disconnect: { disconnect: "after" }, hold: { hold: true } }[effect];
  const on = { api: $("fault-api").value };
  if (open && $("fault-here").checked) on.group = open;
  return call("POST", "/faults", { on, do: what, count: Number($("fault-times").value) }, "fault in force");
}

$("advance").onsubmit = (event) => { event.preventDefault(); advance(); };
$("step").onclick = async () => moved(await call("POST", "/clock/step", { keep_alive: keepAlive() }));
for (const button of document.querySelectorAll("[data-mode]")) button.onclick = () => setMode(button.dataset.mode);
for (const button of document.querySelectorAll("[data-do]")) button.onclick = () => actOnGroup(button.dataset.do);
$("fault").onsubmit = (event) => { event.preventDefault(); addFault(); };
$("fault-clear").onclick = () => call("DELETE", "/faults", undefined, "no fault is in force");
$("fault-do").onchange = () => {
  const value = { error: "COORDINATOR_NOT_AVAILABLE", delay_ms: "1000" }[$("fault-do").value];
  $("fault-value-label").hidden = value === undefined;
  $("fault-value").value = value ?? "";
};
$("help-open").onclick = () => $("help").showModal();
$("reset-open").onclick = () => { $("reset").returnValue = ""; $("reset").showModal(); };
$("reset").onclose = () => { if ($("reset").returnValue === "reset") call("POST", "/reset", {}, "everything is removed"); };

let typing = 0;
$("search").oninput = () => { clearTimeout(typing); typing = setTimeout(watch, 200); };

// -- keys ------------------------------------------------------------------------------------------------------------

function moveFocus(by) {
  const picks = [...$("groups").querySelectorAll(".pick")];
  if (!picks.length) return;
  const at = picks.indexOf(document.activeElement);
  const next = at < 0 ? Math.max(0, picks.indexOf(rows.get(open)?.querySelector(".pick"))) : Math.min(Math.max(at + by, 0), picks.length - 1);
  picks[next].focus();
}

const KEYS = {
  "/": () => $("search").focus(),
  ArrowDown: () => moveFocus(1),
  ArrowUp: () => moveFocus(-1),
  Escape: () => openGroup(""),
  a: () => advance(),
  f: () => setMode(clock?.mode === "real" ? "frozen" : "real"),
  r: () => open && actOnGroup("rebalance"),
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isField = event.target.matches("input, select, textarea");
  if (event.target === $("search") && (event.key === "ArrowDown" || event.key === "Escape")) $("search").blur();
  else if (isField) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

function readHash() {
  const found = /^#group=(.*)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : ""; } catch { return ""; }
}

window.addEventListener("hashchange", () => openGroup(readHash()));
open = readHash();
showGroup();
showFaults();
watch();
