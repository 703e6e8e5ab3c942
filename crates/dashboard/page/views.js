// The views: each is an element and a way to bring it up to date.

import { Chart } from "./chart.js";
import { Table, h, say } from "./dom.js";
import { duration, kindOf, octets, parts, percent, plural, short, unit, whole } from "./format.js";
import { Map_ } from "./map.js";
import { listenNames, post, readHistory, router, state, tell } from "./state.js";

const name = (label, get) => ({ label, className: "name", key: get, text: get });
const number = (label, get, show = short) => ({ label, number: true, key: (item) => get(item) ?? -1, text: (item) => show(get(item)) });
const orDash = (show) => (value) => (value === null || value === undefined ? "–" : show(value));

let toastTimer;
export function toast(text) {
  const element = document.getElementById("toast");
  element.replaceChildren(h("p", {}, text));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => element.replaceChildren(), 6000);
}

const textOf = (error) => (error.hint ? `${error.message}. ${error.hint}.` : error.message);

/** Asks first, if there is a question; then shows the result. */
async function act(body, question) {
  if (question && !(await confirmed(question))) return false;
  try {
    toast((await post("/api/act", body)).done);
    return true;
  } catch (error) {
    toast(textOf(error));
    return false;
  }
}

function confirmed(question) {
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

const controls = new Set();

/** A control that needs the token. */
function guarded(control) {
  controls.add(control);
  control.disabled = !state.tokenWorks;
  return control;
}

export function updateControls() {
  for (const control of controls) {
    control.disabled = !state.tokenWorks || control.dataset.off === "yes";
    if (!control.isConnected && control.dataset.row) controls.delete(control);
  }
}

function rowButton(label, title, onclick) {
  const button = guarded(h("button", { class: "small danger", type: "button", title, onclick }, label));
  button.dataset.row = "yes";
  return button;
}

const actions = (label, title, run) => ({
  label: "Change",
  cell: (row, td) => td.append(rowButton(label, title, () => run(row.item))),
});

function filterBox(label, onChange) {
  const input = h("input", { type: "search", class: "filter", placeholder: "filter", "aria-label": label, maxlength: 200, oninput: onChange });
  return input;
}

function form(label, fields, submit, run) {
  const button = guarded(h("button", { type: "submit", class: "primary" }, submit));
  const onsubmit = async (event) => {
    event.preventDefault();
    if (await run(Object.fromEntries(new FormData(event.target)))) event.target.reset();
  };
  return h("form", { class: "row", "aria-label": label, onsubmit }, fields, button);
}

const field = (label, input) => h("label", { class: "field" }, label, input);
const textField = (title, key, placeholder, more = {}) => field(title, h("input", { name: key, placeholder, required: true, autocomplete: "off", spellcheck: "false", maxlength: 2000, ...more }));

class Tile {
  constructor(label) {
    this.value = h("span");
    this.unit = h("small");
    this.sub = h("div", { class: "sub" });
    this.element = h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, this.value, this.unit, this.sub));
  }

  set(value, unitName = "", sub = "") {
    say(this.value, value);
    say(this.unit, unitName);
    say(this.sub, sub);
  }
}

/** Interval at which a history is read again, ms. */
const PAST_MS = 30000;
const SPANS = [[0, "2 minutes"], [3600, "1 hour"], [21600, "6 hours"], [86400, "1 day"], [604800, "7 days"]];

/** The span of time of the charts: the page's own two minutes, or more from a Prometheus server. */
class Past {
  constructor() {
    this.select = h("select", { onchange: () => this.choose() }, SPANS.map(([value, label]) => h("option", { value }, label)));
    this.trouble = h("span", { class: "muted" });
    this.element = h("div", { class: "row", hidden: true }, field("Charts of the last", this.select), this.trouble);
    this.span = 0;
  }

  choose() {
    this.span = Number(this.select.value);
    this.points = null;
    say(this.trouble, "");
    this.watch();
    tell();
  }

  shown(isShown) {
    this.isShown = isShown;
    this.watch();
  }

  /** Reads the history now and then, while it is visible. */
  watch() {
    clearInterval(this.timer);
    if (!this.isShown || !this.span) return;
    this.timer = setInterval(() => this.read(), PAST_MS);
    this.read();
  }

  async read() {
    const [index, span] = [state.chosen, this.span];
    this.router = index;
    let [points, trouble] = [null, ""];
    try {
      points = await readHistory(index, span);
    } catch (error) {
      trouble = textOf(error);
    }
    if (index !== state.chosen || span !== this.span) return;
    this.points = points ?? this.points;
    say(this.trouble, trouble);
    tell();
  }

  /** The points to draw, and their span in ms; the page's own if the user chose no other span. */
  of(history) {
    this.element.hidden = !state.hasHistory;
    if (!this.span) return [history, undefined];
    if (this.router !== state.chosen) {
      this.points = null;
      this.read();
    }
    return [this.points ?? [], this.span * 1000];
  }
}

class Overview {
  title = "Overview";

  constructor(go) {
    this.tiles = Object.fromEntries(["In", "Out", "Interests", "Data", "Satisfied", "Store hits", "Pending", "Drops"].map((label) => [label, new Tile(label)]));
    const rate = (title, names, label) => new Chart({ title, names, show: (value) => unit(value, label) });
    this.bits = rate("Throughput", ["in", "out"], "bit/s");
    this.packets = rate("Packets in", ["Interests", "Data"], "/s");
    this.map = new Map_((index, id) => go("faces", index, id));
    this.past = new Past();
    this.element = h("div", { class: "stack" }, h("dl", { class: "tiles" }, Object.values(this.tiles).map((tile) => tile.element)),
      this.past.element, h("div", { class: "split" }, this.bits.element, this.packets.element), this.map.element);
  }

  shown(isShown) {
    this.past.shown(isShown);
  }

  update({ sections, history }) {
    const now = sections.router;
    if (now) {
      const last = history.at(-1);
      const memory = sections.store.tiers[0];
      const drops = (sections.counters ?? []).filter(isDrop);
      const t = this.tiles;
      t.In.set(...parts(last?.bits[0] ?? 0, "bit/s"));
      t.Out.set(...parts(last?.bits[1] ?? 0, "bit/s"));
      t.Interests.set(...parts(now.interests[0], "/s"), `${short(now.interests[1])}/s out`);
      t.Data.set(...parts(now.data[0], "/s"), `${short(now.data[1])}/s out`);
      t.Satisfied.set(percent(now.satisfied), "", "of Interests");
      t["Store hits"].set(percent(last?.hits ?? null), "", octets(memory.octets));
      t.Pending.set(whole(now.pit), "", "in the PIT");
      t.Drops.set(...parts(drops.reduce((all, drop) => all + drop.rate, 0), "/s"), `${short(drops.reduce((all, drop) => all + drop.total, 0))} in all`);
    }
    const [points, span] = this.past.of(history.map((point) => ({ ...point, interests: point.interests[0], data: point.data[0] })));
    this.bits.update(points.map(({ at, bits }) => ({ at, values: bits })), span);
    this.packets.update(points.map(({ at, interests, data }) => ({ at, values: [interests, data] })), span);
    this.map.update(state.routers);
  }
}

class Faces {
  title = "Faces";

  constructor() {
    this.filter = filterBox("Filter faces", () => this.update(router()));
    this.count = h("span", { class: "muted" });
    const sized = (width, column) => ({ ...column, width });
    const both = (label, get, factor = 1) => ["in", "out"].map((way, side) => sized(5, number(`${label} ${way}`, (item) => get(item)[side] * factor)));
    const extra = (column) => ({ ...column, isExtra: true });
    const what = (item) => [item.own ? "this page" : item.persistency, item.link === "point-to-point" ? "" : item.link, item.state === "up" ? "" : item.state].filter(Boolean).join(", ");
    this.table = new Table({
      label: "Faces", keyOf: (item) => item.id, sort: 3, empty: "No face matches.",
      columns: [
        sized(4, { label: "Face", number: true, key: (item) => Number(item.id), text: (item) => item.id }),
        extra(sized(5.5, { label: "Kind", key: kindOf, text: (item) => item.uri.split(":")[0], kind: kindOf })),
        sized(14, name("Remote", (item) => item.process ?? item.uri)),
        ...both("bit/s", (item) => item.octets, 8), ...both("Int/s", (item) => item.interests).map(extra), ...both("Data/s", (item) => item.data).map(extra),
        extra(sized(5, number("Nacks /s", (item) => item.nacks[0] + item.nacks[1]))),
        extra(sized(4.5, { label: "MTU", number: true, key: (item) => item.mtu ?? 0, text: (item) => orDash(whole)(item.mtu) })),
        extra(sized(8, { label: "Persistency", key: what, text: what, className: "short" })),
        sized(6, actions("Destroy", "Destroys the face, with its routes", (item) => act({ do: "face_destroy", face: Number(item.id) }, `Destroy face ${item.id} to ${item.uri}? Its routes are removed, too.`))),
      ],
    });
    const create = form("Create a face", [textField("New face to", "uri", "udp://192.0.2.7")], "Create", ({ uri }) => act({ do: "face_create", uri }));
    this.element = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Faces"), this.filter, this.count, h("span", { class: "grow" }), create), this.table.element);
  }

  only(id) {
    this.filter.value = `face ${id}`;
  }

  update({ faces, sections }) {
    const wanted = this.filter.value.trim();
    const exact = /^face (\d+)$/.exec(wanted);
    const all = [...faces].map(([id, face]) => ({ id, ...face }));
    const shown = all.filter((face) => (exact ? face.id === exact[1] : face.uri.includes(wanted) || face.local.includes(wanted) || face.process?.includes(wanted)));
    this.table.update(shown);
    const total = sections.router?.faces ?? all.length;
    say(this.count, `${whole(shown.length)} of ${whole(total)}${total > all.length ? ", the busiest" : ""}`);
  }

  count_ = ({ sections }) => sections.router?.faces;
}

class Routes {
  title = "Routes";

  constructor() {
    this.filter = filterBox("Filter routes", () => this.update(router()));
    this.count = h("span", { class: "muted" });
    const toFace = (item) => `${item.face}  ${item.uri}`;
    this.table = new Table({
      label: "Routes", keyOf: (item) => `${item.prefix} ${item.face} ${item.origin}`, sort: 0, descending: false, empty: "No route matches.",
      columns: [
        name("Prefix", (item) => item.prefix), name("Next hop: face", toFace), { label: "Origin", key: (item) => item.origin, text: (item) => item.origin },
        number("Cost", (item) => item.cost, whole),
        { label: "Serves", key: (item) => item.serves, text: (item) => item.serves },
        number("Expires in", (item) => item.expires_s, orDash(duration)),
        actions("Remove", "Removes the route", (item) => act({ do: "route_remove", prefix: item.prefix, face: item.face, origin: item.origin }, `Remove the route ${item.prefix} to face ${item.face}?`)),
      ],
    });
    this.strategies = new Table({
      label: "Strategies", keyOf: (item) => item.prefix, sort: 0, descending: false,
      columns: [
        name("Below", (item) => item.prefix), name("Strategy", (item) => item.strategy.replace(/^.*\/strategy\//, "")),
        actions("Unset", "Removes the choice", (item) => act({ do: "strategy_unset", prefix: item.prefix }, `Unset the strategy of ${item.prefix}?`)),
      ],
    });
    this.neighbours = new Table({
      label: "Neighbors", keyOf: (item) => `${item.link} ${item.station}`, sort: 0, descending: false, empty: "No neighbors: discovery is off, or no router is on the links.",
      columns: [
        name("Link", (item) => item.link), name("Station", (item) => item.station || "this router"), { label: "State", key: (item) => item.state, text: (item) => item.state },
        number("Face", (item) => item.face, orDash(String)), number("MTU, octets", (item) => item.mtu, orDash(whole)), number("Heard", (item) => item.silent_s, orDash((s) => `${s} s ago`)),
        name("Announces", (item) => [...item.accepted, ...item.refused.map((prefix) => `${prefix} (refused)`)].join(" ")),
      ],
    });
    const add = form("Add a route", [textField("Prefix", "prefix", "/lab", { pattern: "/.*" }), textField("to face or address", "face", "262 or udp://192.0.2.7"), textField("cost", "cost", "0", { type: "number", min: 0, value: "0", size: 5 })],
      "Add route", ({ prefix, face, cost }) => act({ do: "route_add", prefix, face, cost: Number(cost) }));
    const names = ["best-route", "multicast", "asf", "self-learning", "fast-route", "round-robin", "random", "weighted-load-balancer", "multipath"];
    const set = form("Set a strategy", [textField("Below", "prefix", "/lab", { pattern: "/.*" }), textField("forward by", "strategy", "multicast", { list: "strategies" })],
      "Set strategy", ({ prefix, strategy }) => act({ do: "strategy_set", prefix, strategy }));
    const card = (title, head, table) => h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), head), table.element);
    this.element = h("div", { class: "stack" }, card("Routes", [this.filter, this.count, h("span", { class: "grow" }), add], this.table),
      h("div", { class: "split" }, card("Neighbors", [], this.neighbours), card("Strategies", [h("span", { class: "grow" }), set], this.strategies)),
      h("datalist", { id: "strategies" }, names.map((value) => h("option", { value }))));
  }

  update({ sections, faces }) {
    const wanted = this.filter.value.trim();
    const { shown = [], total = 0 } = sections.routes ?? {};
    const items = shown.map((route) => ({ ...route, uri: faces.get(String(route.face))?.uri ?? "", serves: `${route.inherit ? "all below" : "where none is longer"}${route.capture ? ", alone" : ""}` }));
    const matching = items.filter((item) => item.prefix.includes(wanted) || item.uri.includes(wanted));
    this.table.update(matching);
    say(this.count, `${whole(matching.length)} of ${whole(total)}${total > items.length ? ", the first" : ""}`);
    this.strategies.update(sections.strategies ?? []);
    this.neighbours.update(sections.neighbours ?? []);
  }

  count_ = ({ sections }) => sections.routes?.total;
}

class Store {
  title = "Store";

  constructor() {
    this.tiers = h("div", { class: "split" });
    this.chart = new Chart({ title: "Hits in memory", names: ["hits"], show: percent, max: 1 });
    const erase = form("Erase Data", [textField("Erase Data below", "prefix", "/lab", { pattern: "/.*" })], "Erase", ({ prefix }) => act({ do: "store_erase", prefix }, `Erase all Data below ${prefix} from the content store?`));
    this.element = h("div", { class: "stack" }, this.tiers, this.chart.element, h("section", { class: "card" }, h("h2", {}, "Change"), erase));
  }

  update({ sections, history }) {
    const store = sections.store;
    this.chart.update(history.map(({ at, hits }) => ({ at, values: [hits] })));
    if (!store) return;
    const of = (tier) => (tier.tier === "memory" ? this.memory(tier, store) : this.disk(tier, store.disk ?? {}));
    const text = JSON.stringify(store);
    if (text === this.text) return;
    this.text = text;
    const cards = store.tiers.map(of);
    if (store.tiers.length === 1) cards.push(h("section", { class: "card" }, h("h2", {}, "Disk"), h("p", { class: "muted" }, "This content store is in memory only. `[cs.disk]` in the configuration adds a tier on disk.")));
    this.tiers.replaceChildren(...cards);
  }

  card(title, part, facts) {
    const fill = h("i");
    fill.style.width = `${Math.min(100, part * 100).toFixed(1)}%`;
    return h("section", { class: "card" }, h("h2", {}, title), h("div", { class: "bar" }, fill),
      h("dl", { class: "facts" }, facts.filter(([, value]) => value !== null && value !== undefined).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])));
  }

  ratio(tier) {
    const asked = tier.hits + tier.misses;
    return `${percent(asked > 0 ? tier.hits / asked : null)} of ${short(asked)} a second`;
  }

  memory(tier, store) {
    const lifetime = store.hits + store.misses;
    return this.card("Memory", store.capacity > 0 ? tier.entries / store.capacity : 0, [
      ["Data", `${whole(tier.entries)} of ${whole(store.capacity)}`], ["Takes", octets(tier.octets)], ["Hits now", this.ratio(tier)],
      ["Hits so far", `${percent(lifetime > 0 ? store.hits / lifetime : null)} of ${whole(lifetime)}`], ["Eviction policy", store.policy],
      ["Admits Data", store.admit ? "yes" : "no"], ["Answers", store.serve ? "yes" : "no"],
    ]);
  }

  disk(tier, disk) {
    return this.card("Disk", disk.octets_max > 0 ? tier.octets / disk.octets_max : 0, [
      ["Data", whole(tier.entries)], ["Takes", `${octets(tier.octets)} of ${octets(disk.octets_max)}`], ["Hits now", this.ratio(tier)],
      ["Pending requests", `${whole(disk.pending)}, bypassed from ${whole(disk.threshold)} on`], ["Writes", disk.admission], ["By", disk.engine], ["Index in memory", octets(disk.memory_octets)],
      ["Folder", disk.folder], ["Pinned", disk.pinned?.length ? disk.pinned.join(" ") : null], ["Trouble", disk.trouble],
    ]);
  }
}

/** The meaning of a counter in docs/counters.md: words, and whether it is a drop. */
function about(counter) {
  const words = state.words ?? {};
  return words[counter] ?? words[counter.slice(counter.lastIndexOf(".") + 1)] ?? ["–", false];
}

const meaning = (counter) => about(counter)[0];
const isDrop = (counter) => about(counter.name)[1];

class Drops {
  title = "Drops";

  constructor() {
    this.filter = filterBox("Filter counters", () => this.update(router()));
    this.onlyNow = h("input", { type: "checkbox", onchange: () => this.update(router()) });
    this.all = h("input", { type: "checkbox", onchange: () => this.update(router()) });
    this.table = new Table({
      label: "Drops", keyOf: (item) => `${item.name} ${item.face}`, sort: 2, empty: "No packet was dropped.",
      columns: [
        name("Counter", (item) => item.name), number("Face", (item) => item.face, orDash(String)), number("A second", (item) => item.rate), number("In all", (item) => item.total, whole),
        { label: "The packet, or the counted event", className: "words", text: (item) => meaning(item.name) },
      ],
    });
    this.element = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Drops, and their meaning"), this.filter, field("only now", this.onlyNow), field("other counters, too", this.all)), this.table.element);
  }

  update({ sections }) {
    const wanted = this.filter.value.trim();
    const counters = (sections.counters ?? []).filter((counter) => (this.all.checked || isDrop(counter)) && (!this.onlyNow.checked || counter.rate > 0));
    this.table.update(counters.filter((counter) => counter.name.includes(wanted) || meaning(counter.name).includes(wanted)));
  }

  count_ = ({ sections }) => (sections.counters ?? []).filter((counter) => isDrop(counter) && counter.rate > 0).length || undefined;
}

class Vip {
  title = "VIP";

  constructor() {
    this.about = h("p", { class: "muted" });
    const tier = (item) => (item.source ? "source" : item.tier === null ? "not kept" : item.tier === 0 ? "in memory" : `tier ${item.tier}`);
    this.objects = new Table({
      label: "Objects", keyOf: (item) => item.name, sort: 4, empty: "No object is registered.",
      columns: [name("Object", (item) => item.name), number("Size", (item) => item.octets, octets), { label: "Tier", key: tier, text: tier }, number("Held", (item) => item.held, octets),
        number("Score, VIPs", (item) => item.score), number("Wait, VIPs", (item) => item.count), number("Asked, VIPs", (item) => item.asked), number("Next hop: face", (item) => item.face, orDash(String))],
    });
    this.neighbours = new Table({
      label: "Neighbors of the exchange", keyOf: (item) => item.remote, sort: 0, descending: false,
      columns: [name("Neighbor", (item) => item.router || item.remote), number("Face", (item) => item.face, orDash(String)), number("Fresh for, ms", (item) => item.fresh_ms, orDash(whole)), number("Under way, VIPs", (item) => item.under_way)],
    });
    this.element = h("div", { class: "stack" }, h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Objects of VIP"), this.about), this.objects.element),
      h("section", { class: "card" }, h("h2", {}, "Neighbors"), this.neighbours.element));
  }

  isThere = ({ sections }) => Boolean(sections.vip);

  update({ sections }) {
    const vip = sections.vip;
    if (!vip) {
      say(this.about, "This router runs no virtual plane.");
      return;
    }
    say(this.about, `${plural(vip.objects_total, "object")}, ${octets(vip.octets)}; room for ${octets(vip.room)}; slot ${whole(vip.slot)} of ${vip.period_ms} ms${vip.open ? "; OPEN: unsigned counts of neighbors are accepted" : ""}`);
    this.objects.update(vip.objects);
    this.neighbours.update(vip.neighbours);
  }
}

/** The currently requested names. The router is sampled only while this view is visible. */
class Names {
  title = "Names";

  constructor() {
    this.filter = filterBox("Filter names", () => this.update());
    this.about = h("p", { class: "muted" });
    this.table = new Table({
      label: "Names", keyOf: (item) => item.prefix, sort: 1, empty: "No Interest in this sample.",
      columns: [name("Interests below", (item) => item.prefix), number("Part of all", (item) => item.part, percent)],
    });
    this.element = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Requested now"), this.filter), this.about, this.table.element);
    document.addEventListener("visibilitychange", () => this.watch());
  }

  shown(isShown) {
    this.isShown = isShown;
    this.watch();
  }

  /** Reads the stream of the chosen router while the view is visible. */
  watch() {
    const wanted = this.isShown && document.visibilityState === "visible" && !state.isPaused && state.token ? state.chosen : null;
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    this.stop?.abort();
    this.told = null;
    if (wanted !== null) this.listen(wanted, (this.stop = new AbortController()));
  }

  async listen(index, stop) {
    const say = (told) => {
      this.told = told;
      tell();
    };
    for (let wait = 250; !stop.signal.aborted; wait = Math.min(wait * 2, 4000)) {
      const status = await listenNames(index, stop, say).catch(() => 0);
      if (stop.signal.aborted) return;
      this.refused = status === 401;
      tell();
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  update() {
    this.watch();
    const trouble = this.told?.trouble;
    const text = !state.token || this.refused ? "Requires the token: open the address that the command printed."
      : trouble ? `${trouble.what}. ${trouble.hint ?? "This view needs the right to manage the router."}`
      : "The first two components of the names of Interests, from a sample of 50 ms of each second.";
    say(this.about, text);
    const wanted = this.filter.value.trim();
    this.table.update((this.told?.names ?? []).filter((item) => item.prefix.includes(wanted)));
  }
}

class System {
  title = "Router";

  constructor() {
    this.facts = h("dl", { class: "facts" });
    this.workers = new Table({
      label: "Workers", keyOf: (item) => item.worker, sort: 0, descending: false, empty: "The router does not report its workers.",
      columns: [name("Worker", (item) => item.worker), number("Longest turn so far", (item) => item.longest_turn_us, (us) => `${(us / 1000).toFixed(1)} ms`)],
    });
    this.element = h("div", { class: "split" }, h("section", { class: "card" }, h("h2", {}, "Router"), this.facts), h("section", { class: "card" }, h("h2", {}, "Workers"), this.workers.element));
  }

  update({ sections }) {
    const now = sections.router;
    if (!now) return;
    const facts = [["Address", now.address], ["Version", now.version], ["Runs since", new Date(now.start_ms).toLocaleString()], ["For", duration(now.up_s)], ["Faces", whole(now.faces)], ["Routes", whole(now.routes)], ["FIB", plural(now.fib, "prefix", "prefixes")], ["PIT", `${whole(now.pit)} pending`]];
    const text = JSON.stringify(facts);
    if (text !== this.text) {
      this.text = text;
      this.facts.replaceChildren(...facts.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
    }
    this.workers.update(sections.workers ?? []);
  }
}

export const makeViews = (go) => ({ overview: new Overview(go), faces: new Faces(), routes: new Routes(), store: new Store(), names: new Names(), drops: new Drops(), vip: new Vip(), router: new System() });

