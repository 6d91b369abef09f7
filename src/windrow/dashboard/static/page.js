// The page: asks once a second how everything is, draws it, and has done what a button says.
import { Chart } from "./charts.js";
import { ask, forget, keep, Refused, token } from "./api.js";
import { bytes, clock, count, short, span } from "./format.js";
import { element, Table } from "./table.js";

const EVERY = 1000;
const HIDDEN_EVERY = 10000;
const POINTS = 1800;
const EVENTS = 100;
const SLOW = 5;
const STUCK = 60;
const get = (id) => document.getElementById(id);
const say = (id, text) => {
  if (get(id).textContent !== text) get(id).textContent = text;
};

const known = { run: null, event: 0, points: {}, letters: [], lettersOf: null, seen: null };

const age = (seconds) => (seconds >= STUCK ? "bad" : seconds >= SLOW ? "warm" : "");

const shards = new Table(get("shards-table"), {
  label: "shards",
  key: (row) => row.shard,
  empty: "No shards yet.",
  sort: "shard",
  columns: [
    { name: "shard", title: "Shard", text: (row) => row.shard, value: (row) => row.shard },
    { name: "published", title: "Published", number: true, text: (row) => count(row.published), value: (row) => row.published },
    { name: "backlog", title: "Backlog", number: true, text: (row) => count(row.backlog), value: (row) => row.backlog },
    { name: "flight", title: "In flight", number: true, text: (row) => count(row.in_flight_records), value: (row) => row.in_flight_records },
    { name: "oldest", title: "Oldest", number: true, text: (row) => span(row.oldest_age), value: (row) => row.oldest_age, level: (row) => age(row.oldest_age) },
    { name: "position", title: "Position", minor: true, long: true, text: (row) => row.position || "at the beginning" },
  ],
});

const letters = new Table(get("letters-table"), {
  label: "dead letters",
  key: (row) => row.id,
  empty: "No dead letters. Kafka has taken everything.",
  sort: "id",
  columns: [
    { name: "id", title: "Id", number: true, text: (row) => row.id, value: (row) => row.id },
    { name: "topic", title: "Topic", clip: true, text: (row) => row.topic },
    { name: "key", title: "Key", minor: true, text: (row) => ("key" in row ? (row.key ?? "–") : "•••") },
    { name: "size", title: "Size", number: true, minor: true, text: (row) => bytes(row.size), value: (row) => row.size ?? 0 },
    { name: "refused", title: "Refused", minor: true, text: (row) => clock(row.refused), value: (row) => row.refused },
    { name: "reason", title: "Reason", long: true, minor: true, text: (row) => (row.released ? "released, to be published" : row.reason), level: (row) => (row.released ? "good" : "") },
  ],
  actions: [
    { title: "Look", act: (row) => unlocked(() => look(row)) },
    { title: "Retry", act: (row) => act("/api/letters/retry", { numbers: [row.id] }), hidden: (row) => row.released },
    { title: "Discard", danger: true, act: (row) => discard(row), hidden: (row) => row.released },
  ],
});

const queues = new Table(get("queues-table"), {
  label: "queues",
  key: (row) => row.queue,
  empty: "No queues on this Kafka.",
  sort: "queue",
  columns: [
    { name: "queue", title: "Queue", clip: true, text: (row) => row.queue },
    { name: "state", title: "State", text: state, level: (row) => ({ working: "good", paused: "warm", "nobody consumes": row.depth ? "bad" : "" })[state(row)] },
    { name: "depth", title: "Waiting", number: true, text: (row) => count(row.depth), value: (row) => row.depth },
    { name: "flight", title: "In flight", number: true, minor: true, text: (row) => count(row.in_flight), value: (row) => row.in_flight },
    { name: "delayed", title: "Delayed", number: true, minor: true, text: (row) => count(row.delayed), value: (row) => row.delayed },
    { name: "oldest", title: "Oldest", number: true, minor: true, text: (row) => span(row.oldest_age), value: (row) => row.oldest_age, level: (row) => age(row.oldest_age) },
    { name: "again", title: "Redelivered", number: true, minor: true, text: (row) => count(row.redelivered), value: (row) => row.redelivered },
    { name: "dead", title: "Dead", number: true, text: (row) => count(row.dead_letters), value: (row) => row.dead_letters, level: (row) => (row.dead_letters ? "bad" : "") },
    { name: "consumers", title: "Consumers", number: true, minor: true, text: (row) => count(row.consumers), value: (row) => row.consumers },
  ],
  actions: [
    { title: (row) => (row.paused ? "Resume" : "Pause"), act: (row) => act(row.paused ? "/api/queues/resume" : "/api/queues/pause", { queue: row.queue }) },
    { title: "Dead letters", act: (row) => unlocked(() => lookIntoQueue(row)), hidden: (row) => !row.dead_letters },
  ],
});

const charts = [
  new Chart(get("rate-chart"), get("rate-legend"), [{ name: "published", colour: "--wheat", fill: true, show: (value) => `${count(value)}/s` }], short),
  new Chart(
    get("latency-chart"),
    get("latency-legend"),
    [
      { name: "p50", colour: "--leaf", show: span },
      { name: "p99", colour: "--sky", show: span },
    ],
    span,
  ),
  new Chart(
    get("backlog-chart"),
    get("backlog-legend"),
    [
      { name: "waiting", colour: "--clay", fill: true, show: count },
      { name: "in flight", colour: "--sky", show: count },
    ],
    short,
  ),
];
const CHARTED = [["rate"], ["p50", "p99"], ["backlog", "in_flight"]];

function state(row) {
  return row.paused ? "paused" : row.consumers ? "working" : "nobody consumes";
}

// --- what is seen -----------------------------------------------------------------------------------------------------

function show(seen) {
  known.seen = seen;
  say("name", seen.name);
  document.title = `${seen.name} · windrow`;
  get("unlock").hidden = !seen.changeable;
  say("unlock", token() ? "Lock" : "Unlock");
  document.body.classList.toggle("readonly", !seen.changeable);
  const problem = seen.problem ?? "";
  get("problem").hidden = !problem;
  say("problem", problem);
  if (seen.relay) showRelay(seen);
  queues.set(seen.queues);
  say("queues-problem", seen.queues_problem ?? "");
  showPoints(seen);
  showEvents(seen);
}

function showRelay({ relay, rate, election, now }) {
  const leading = relay.candidates.find((each) => each.leads);
  say("leader", relay.leader ? relay.leader.slice(0, 8) : "nobody");
  get("leader").dataset.level = relay.leader ? "good" : "bad";
  get("leader").title = relay.leader ? `term ${relay.leader}` : "";
  const others = relay.candidates.length - (leading ? 1 : 0);
  const standbys = election === "lease" ? "elected by lease" : `${others} on standby`;
  say("standbys", leading ? `on ${leading.host} · ${standbys}` : standbys);
  get("standbys").title = relay.candidates.map((each) => `${each.leads ? "leads" : "stands by"}: ${each.id} on ${each.host}`).join("\n");
  say("rate", short(rate));
  say("published", `${count(relay.published)} since it exists`);
  say("backlog", short(relay.backlog));
  say("in-flight", relay.log ? `${bytes(relay.log.unread)} of the log unread, ${bytes(relay.log.held)} held` : `${count(relay.in_flight)} in flight`);
  say("oldest", relay.oldest_age ? span(relay.oldest_age) : "none");
  get("oldest").dataset.level = age(relay.oldest_age);
  say("oldest-note", `${relay.shards.filter((each) => each.backlog).length} of ${relay.shards.length} shards have messages waiting`);
  say("dead", count(relay.dead_letters));
  get("dead").dataset.level = relay.dead_letters ? "bad" : "";
  say("dead-note", relay.dead_letters ? "look, then retry or discard" : "Kafka has taken everything");
  const latency = relay.latency;
  say("latency", latency ? span(latency.p50) : "–");
  say("latency-note", latency ? `p99 ${span(latency.p99)}, commit to acknowledged` : "nothing published yet");
  say("age", `seen ${span(Math.max(0, now - relay.looked_at))} ago`);
  shards.set(relay.shards);
  showMap(relay.shards);
  get("retry-all").hidden = get("discard-all").hidden = !relay.dead_letters;
  const version = `${relay.dead_letters} ${relay.dead_letters_released ?? ""} ${token()}`;
  if (version !== known.lettersOf) {
    known.lettersOf = version;
    loadLetters();
  }
}

function showMap(rows) {
  const map = get("shard-map");
  while (map.children.length > rows.length) map.lastChild.remove();
  rows.forEach((row, place) => {
    const cell = map.children[place] ?? map.appendChild(element("span"));
    const level = row.oldest_age >= STUCK ? "bad" : row.oldest_age >= SLOW ? "warm" : row.backlog || row.in_flight_records ? "busy" : "idle";
    if (cell.dataset.level !== level) cell.dataset.level = level;
    const told = `shard ${row.shard}: ${count(row.backlog)} waiting`;
    if (cell.title !== told) cell.title = told;
  });
}

async function loadLetters() {
  const told = await ask("/api/letters").catch(() => null);
  if (told) letters.set(told.letters);
  else known.lettersOf = null;
}

function showPoints({ points, now }) {
  for (const [name, values] of Object.entries(points)) {
    known.points[name] = [...(known.points[name] ?? []), ...values].slice(-POINTS);
  }
  charts.forEach((chart, place) => chart.set([known.points.time, ...CHARTED[place].map((name) => known.points[name])], now));
}

function showEvents({ run, events }) {
  const list = get("events-list");
  if (known.run !== run) {
    known.run = run;
    known.event = 0;
    list.replaceChildren();
  }
  for (const event of events) {
    if (event.number <= known.event) continue;
    known.event = event.number;
    const when = element("time", { textContent: clock(event.time) });
    const line = element("li", {}, when, element("span", { textContent: event.text }));
    line.dataset.level = event.kind;
    list.prepend(line);
  }
  while (list.children.length > EVENTS) list.lastChild.remove();
  if (!list.children.length) list.append(element("li", { className: "nothing", textContent: "Nothing has happened since the dashboard looks." }));
  else if (list.children.length > 1) list.querySelector(".nothing")?.remove();
}

async function follow() {
  for (;;) {
    const since = known.points.time?.at(-1) ?? 0;
    const event = known.run ? known.event : 0;
    const seen = await ask(`/api/overview?since=${since}&event=${event}&run=${known.run ?? ""}`).catch(() => null);
    if (seen) {
      link(seen.problem ? "bad" : "good", seen.problem ? "trouble" : "live");
      show(seen);
    } else link("bad", "not reachable");
    await pause(document.hidden ? HIDDEN_EVERY : EVERY);
  }
}

let hurry = () => {};

function pause(milliseconds) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    hurry = () => {
      clearTimeout(timer);
      done();
    };
  });
}

function link(level, text) {
  get("link").dataset.level = level;
  document.body.classList.toggle("stale", text === "not reachable");
  say("link", text);
}

// --- what is done -----------------------------------------------------------------------------------------------------

async function unlocked(action) {
  if (!known.seen?.changeable) return toast("This dashboard was started without a token: it shows, and changes nothing.", "bad");
  if (!token() && !(await unlock())) return undefined;
  return action();
}

function act(path, body) {
  return unlocked(async () => {
    try {
      const { said } = await ask(path, { body });
      toast(said, "good");
      known.lettersOf = null;
      hurry();
      return true;
    } catch (error) {
      if (error instanceof Refused) forget();
      toast(error.message, "bad");
      return false;
    }
  });
}

async function discard(row) {
  if (await sure("Discard it?", `Dead letter ${row.id} will be forgotten for good.`, "Discard")) {
    return act("/api/letters/discard", { numbers: [row.id] });
  }
  return false;
}

function unlock() {
  const dialog = get("token-dialog");
  get("token").value = "";
  say("token-problem", "");
  dialog.showModal();
  return new Promise((done) => {
    dialog.onclose = () => done(Boolean(token()));
  });
}

get("token-dialog").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = get("token").value.trim();
  try {
    const { right } = await ask("/api/token", { given });
    if (right) {
      keep(given);
      get("token-dialog").close();
      hurry();
    } else say("token-problem", "That is not the token.");
  } catch {
    say("token-problem", "The server does not answer.");
  }
});
get("token-cancel").addEventListener("click", () => get("token-dialog").close());

function sure(title, text, answer) {
  const dialog = get("sure-dialog");
  say("sure-title", title);
  say("sure-text", text);
  say("sure-ok", answer);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => {
    dialog.onclose = () => done(dialog.returnValue === "yes");
  });
}

async function look(row) {
  try {
    const letter = await ask(`/api/letter?number=${row.id}`);
    say("letter-title", `Dead letter ${letter.id}`);
    get("letter-facts").replaceChildren(
      ...facts({
        Topic: letter.topic,
        Key: letter.key ?? "none",
        Reason: letter.reason,
        Written: clock(letter.created),
        Refused: clock(letter.refused),
        ...Object.fromEntries(letter.headers.map(([name, value]) => [`Header ${name}`, value ?? "none"])),
      }),
    );
    say("letter-content", pretty(letter.value));
    get("letter-retry").hidden = get("letter-discard").hidden = letter.released;
    get("letter-retry").onclick = () => closing("letter-dialog", act("/api/letters/retry", { numbers: [letter.id] }));
    get("letter-discard").onclick = () => closing("letter-dialog", discard(letter));
    get("letter-dialog").showModal();
  } catch (error) {
    if (error instanceof Refused) forget();
    toast(error.message, "bad");
  }
}

async function lookIntoQueue({ queue }) {
  try {
    const { letters: found } = await ask(`/api/queue-letters?queue=${encodeURIComponent(queue)}`);
    say("queue-title", `Dead letters of ${queue}`);
    get("queue-letters").replaceChildren(...found.map((letter) => queueLetter(queue, letter)));
    get("queue-replay").onclick = () => closing("queue-dialog", act("/api/queues/replay", { queue, all: true }));
    get("queue-discard").onclick = async () => {
      if (await sure("Discard all?", `All dead letters of queue ${queue} will be forgotten for good.`, "Discard all")) {
        await closing("queue-dialog", act("/api/queues/discard", { queue, all: true }));
      }
    };
    get("queue-dialog").showModal();
  } catch (error) {
    if (error instanceof Refused) forget();
    toast(error.message, "bad");
  }
}

function queueLetter(queue, letter) {
  const replay = element("button", { type: "button", className: "act", textContent: "Replay" });
  replay.setAttribute("aria-label", `Replay ${letter.id}`);
  const box = element("article", {}, element("header", {}, element("strong", { textContent: letter.id }), element("span", { textContent: `${letter.reason} · ${letter.attempts} attempts · ${clock(letter.died)}` }), replay));
  box.append(element("pre", { textContent: pretty(letter.payload), tabIndex: 0 }));
  replay.addEventListener("click", async () => {
    if (await act("/api/queues/replay", { queue, ids: [letter.id] })) box.remove();
  });
  return box;
}

async function closing(dialog, outcome) {
  if (await outcome) get(dialog).close();
}

const facts = (given) => Object.entries(given).flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })]);

function pretty(text) {
  if (text === null || text === undefined) return "nothing";
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

let quiet;

function toast(text, level) {
  get("toast").dataset.level = level;
  say("toast", text);
  get("toast").classList.add("shown");
  clearTimeout(quiet);
  quiet = setTimeout(() => get("toast").classList.remove("shown"), 6000);
}

// --- what people press ------------------------------------------------------------------------------------------------

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("windrow-theme", theme);
  charts.forEach((each) => each.redraw());
}

get("theme").addEventListener("click", switchTheme);
get("unlock").addEventListener("click", () => {
  if (!token()) return unlock();
  forget();
  return hurry();
});
get("retry-all").addEventListener("click", () => act("/api/letters/retry", { all: true }));
get("discard-all").addEventListener("click", async () => {
  if (await sure("Discard all?", "All dead letters of this relay will be forgotten for good.", "Discard all")) {
    await act("/api/letters/discard", { all: true });
  }
});
for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    for (const each of document.querySelectorAll("[data-span]")) each.setAttribute("aria-pressed", String(each === button));
    for (const chart of charts) {
      chart.span = Number(button.dataset.span);
      chart.draw();
    }
  });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input") || document.querySelector("dialog[open]")) return;
  const section = ["shards", "letters", "queues", "events"][Number(event.key) - 1];
  if (event.key === "t") switchTheme();
  else if (section) {
    get(section).scrollIntoView();
    get(section).focus({ preventScroll: true });
  } else if (event.key === "/") {
    event.preventDefault();
    const inside = document.activeElement?.closest?.(".panel") ?? document;
    [...inside.querySelectorAll(".filter"), ...document.querySelectorAll(".filter")].find((each) => each.offsetParent)?.focus();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || hurry());

follow();
