// The map: each router is in the middle of its faces. The faces stand on rings around it, and those
// of one kind are beside each other. A link between two routers of the page is one line. The layout
// is arithmetic, so faces move only when one is added or removed. A simulation of forces would move
// all of them.

import { h, s, say } from "./dom.js";
import { KINDS, kindOf, plural, short, unit } from "./format.js";

const RING = 92;
const RING_STEP = 26;
const SPACE = 15;
const LABELS_MAX = 18;
const ROW = 30;
const GAP = 40;
const ORDER = ["app", "memif", "other", "ether", "udp", "tcp", "ws"];

/** Radius and angle of each of `count` places on rings. The inner rings are full. */
export function rings(count) {
  const places = [];
  for (let ring = 0; places.length < count; ring += 1) {
    const radius = RING + ring * RING_STEP;
    const room = Math.floor((2 * Math.PI * radius) / (count > 60 ? SPACE : 2 * SPACE));
    const here = Math.min(room, count - places.length);
    for (let index = 0; index < here; index += 1) {
      places.push([radius, ((index + (ring % 2) / 2) / here) * 2 * Math.PI - Math.PI / 2]);
    }
  }
  return places;
}

/**
 * Places of a few faces with readable labels: a column on each side, so that labels do not overlap.
 * The middle stays free for lines to other routers.
 */
export function columns(count) {
  const left = Math.ceil(count / 2);
  return Array.from({ length: count }, (_, index) => {
    const isLeft = index < left;
    const [here, side] = isLeft ? [index, left] : [index - left, count - left];
    const upper = Math.ceil(side / 2);
    const y = here < upper ? -(GAP + (upper - 1 - here) * ROW) : GAP + (here - upper) * ROW;
    const out = Math.cos((Math.min(1, Math.abs(y) / (GAP + ROW * 5)) * Math.PI) / 2);
    return [(isLeft ? -1 : 1) * (72 + 50 * out), y];
  });
}

/** Pairs of faces that are the two ends of one link between routers of the page. */
export function trunks(routers) {
  const ends = new Map();
  routers.forEach((router, index) => {
    for (const [id, face] of router.faces) ends.set(`${face.local} ${face.uri}`, { index, id, face });
  });
  const found = [];
  for (const { index, id, face } of ends.values()) {
    const other = ends.get(`${face.uri} ${face.local}`);
    if (other && other.index > index) found.push({ a: { index, id, face }, b: other });
  }
  return found;
}

const bits = (face) => (face.octets[0] + face.octets[1]) * 8;
const width = (rate) => (rate > 0 ? 1 + Math.min(5, Math.log10(1 + rate / 1000)) : 1);

export class Map_ {
  constructor(onFace) {
    this.onFace = onFace;
    this.edges = s("g");
    this.trunks = s("g");
    this.nodes = s("g");
    this.hubs = s("g");
    this.svg = s("svg", { class: "map", role: "img", preserveAspectRatio: "xMidYMid meet" }, this.edges, this.trunks, this.nodes, this.hubs);
    this.legend = h("div", { class: "legend" });
    this.note = h("span", { class: "muted" });
    this.element = h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Map"), h("span", { class: "grow" }), this.note),
      h("div", { class: "mapbox", tabindex: "0", role: "region", "aria-label": "Map of routers" }, this.svg), this.legend);
    this.known = new Map();
    this.shape = "";
  }

  update(routers) {
    const links = trunks(routers);
    const inTrunk = new Set(links.flatMap(({ a, b }) => [`${a.index}/${a.id}`, `${b.index}/${b.id}`]));
    const groups = routers.map((router, index) => this.group(router, index, inTrunk));
    this.place(groups);
    const seen = new Set();
    for (const group of groups) {
      const busiest = [...group.faces].sort((a, b) => bits(b.face) - bits(a.face)).slice(0, LABELS_MAX);
      const isLabelled = new Set(group.faces.length <= LABELS_MAX ? group.faces : busiest.filter(({ face }) => bits(face) > 0));
      group.faces.forEach((item) => {
        seen.add(item.key);
        this.drawFace(group, item, isLabelled.has(item));
      });
      seen.add(`hub ${group.index}`);
      this.drawHub(group);
    }
    for (const link of links) {
      const key = `trunk ${link.a.index}/${link.a.id}`;
      seen.add(key);
      this.drawTrunk(key, link, groups);
    }
    for (const [key, drawn] of this.known) {
      if (seen.has(key)) continue;
      drawn.forEach((element) => element.remove());
      this.known.delete(key);
    }
    this.describe(groups, links);
  }

  group(router, index, inTrunk) {
    const neighbours = new Map();
    const strangers = [];
    for (const neighbour of router.sections.neighbours ?? []) {
      if (!neighbour.station) continue;
      if (neighbour.face !== null && router.faces.has(String(neighbour.face))) neighbours.set(String(neighbour.face), neighbour);
      else strangers.push({ key: `${index}/n ${neighbour.link} ${neighbour.station}`, kind: "ether", stranger: neighbour, face: { octets: [0, 0], uri: neighbour.station } });
    }
    const faces = [...router.faces]
      .filter(([id, face]) => !face.own && !inTrunk.has(`${index}/${id}`))
      .map(([id, face]) => ({ key: `${index}/${id}`, id, face, kind: kindOf(face), neighbour: neighbours.get(id) }));
    faces.push(...strangers);
    faces.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || Number(a.id ?? 0) - Number(b.id ?? 0));
    return { router, index, faces };
  }

  place(groups) {
    const across = Math.ceil(Math.sqrt(groups.length));
    const down = Math.ceil(groups.length / across);
    const isFew = groups.every((group) => group.faces.length <= LABELS_MAX);
    const places = groups.map((group) => (isFew ? columns(group.faces.length)
      : rings(group.faces.length).map(([radius, angle]) => [radius * Math.cos(angle), radius * Math.sin(angle)])));
    const reach = Math.max(RING * 0.6, ...places.flat().map(([x, y]) => (isFew ? Math.abs(y) : Math.hypot(x, y))));
    const [width, height] = [isFew ? 610 : 2 * reach + 70, 2 * reach + 44];
    groups.forEach((group, index) => {
      group.x = width * ((index % across) + 0.5);
      group.y = height * (Math.floor(index / across) + 0.5);
      group.faces.forEach((item, at) => {
        const [x, y] = places[index][at];
        [item.x, item.y] = [group.x + x, group.y + y];
      });
    });
    const box = `0 0 ${width * across} ${height * down}`;
    if (this.svg.getAttribute("viewBox") === box) return;
    this.svg.setAttribute("viewBox", box);
    // A map with few faces must not be drawn too large to read.
    this.svg.style.maxHeight = `${Math.round(height * down * 1.25)}px`;
  }

  /** Elements by key, made once. */
  drawn(key, make) {
    let elements = this.known.get(key);
    if (!elements) this.known.set(key, (elements = make()));
    return elements;
  }

  drawFace(group, item, isLabelled) {
    const [edge, node, title, label, rate] = this.drawn(item.key, () => {
      const edge = s("line", { class: `edge k-${item.kind}` });
      const title = s("title");
      const shape = item.neighbour || item.stranger ? s("path", { d: "M0-6.5L6.5 0L0 6.5L-6.5 0Z" })
        : item.kind === "app" || item.kind === "memif" ? s("circle", { r: 5 }) : s("rect", { x: -4.5, y: -4.5, width: 9, height: 9, rx: 1.5 });
      const label = s("text");
      const rate = s("text", { class: "small" });
      const node = s("g", { class: "face" }, shape, title, label, rate);
      if (item.id) node.addEventListener("click", () => this.onFace(group.index, item.id));
      this.edges.append(edge);
      this.nodes.append(node);
      return [edge, node, title, label, rate, shape];
    });
    const shape = node.firstChild;
    const amount = bits(item.face);
    const state = `${item.x.toFixed(1)} ${item.y.toFixed(1)} ${group.x} ${group.y} ${amount > 0} ${width(amount).toFixed(1)} ${isLabelled}`;
    if (edge.state !== state) {
      edge.state = state;
      for (const [name, value] of [["x1", group.x], ["y1", group.y], ["x2", item.x], ["y2", item.y]]) edge.setAttribute(name, value.toFixed(1));
      edge.setAttribute("stroke-width", width(amount).toFixed(1));
      edge.classList.toggle("on", amount > 0);
      node.setAttribute("transform", `translate(${item.x.toFixed(1)} ${item.y.toFixed(1)})`);
      shape.setAttribute("class", `node k-${item.kind}${amount > 0 ? " on" : ""}${item.stranger ? " ghost" : ""}`);
      const isRight = item.x >= group.x;
      for (const [text, y] of [[label, -1], [rate, 10]]) {
        text.setAttribute("x", isRight ? 10 : -10);
        text.setAttribute("y", y);
        text.setAttribute("text-anchor", isRight ? "start" : "end");
      }
    }
    const flow = amount > 0 ? `in ${unit(item.face.octets[0] * 8, "bit/s")} · out ${unit(item.face.octets[1] * 8, "bit/s")}` : "";
    const uri = item.stranger ? `${item.stranger.station} (${item.stranger.state})` : item.face.uri;
    say(label, isLabelled ? (uri.length > 28 ? `${uri.slice(0, 27)}…` : uri) : "");
    say(rate, isLabelled ? flow : "");
    say(title, `${item.id ? `face ${item.id}, ` : ""}${uri}${item.neighbour ? `, neighbor ${item.neighbour.key}` : ""}${flow ? `, ${flow}` : ", quiet"}`);
  }

  drawHub({ router, index, x, y }) {
    const [group, name, sub] = this.drawn(`hub ${index}`, () => {
      const name = s("text", { "text-anchor": "middle", y: -2 });
      const sub = s("text", { class: "sub", "text-anchor": "middle", y: 12 });
      const group = s("g", { class: "hub" }, s("rect", { x: -58, y: -21, width: 116, height: 42, rx: 9 }), name, sub);
      this.hubs.append(group);
      return [group, name, sub];
    });
    const about = router.sections.router;
    group.setAttribute("transform", `translate(${x} ${y})`);
    group.setAttribute("class", router.sections.trouble ? "hub bad" : "hub");
    const address = (about?.address ?? router.sections.trouble?.address ?? "").split("/").filter(Boolean).at(-1) ?? "router";
    say(name, address.length > 16 ? `${address.slice(0, 15)}…` : address || `router ${index + 1}`);
    say(sub, router.sections.trouble ? "not reached" : `${short((about?.interests[0] ?? 0))} Interests/s`);
  }

  drawTrunk(key, { a, b }, groups) {
    const [line, label] = this.drawn(key, () => {
      const line = s("line", { class: "trunk" });
      const label = s("text", { "text-anchor": "middle" });
      this.trunks.append(line, label);
      return [line, label];
    });
    const [from, to] = [groups[a.index], groups[b.index]];
    for (const [name, value] of [["x1", from.x], ["y1", from.y], ["x2", to.x], ["y2", to.y]]) line.setAttribute(name, value);
    line.setAttribute("stroke-width", (width(bits(a.face)) + 1).toFixed(1));
    label.setAttribute("x", (from.x + to.x) / 2);
    label.setAttribute("y", (from.y + to.y) / 2 - 8);
    say(label, `→ ${unit(a.face.octets[1] * 8, "bit/s")}   ← ${unit(a.face.octets[0] * 8, "bit/s")}`);
  }

  describe(groups, links) {
    const kinds = new Set(groups.flatMap((group) => group.faces.map((item) => item.kind)));
    const shape = [...kinds].sort().join();
    if (shape !== this.shape) {
      this.shape = shape;
      this.legend.replaceChildren(...ORDER.filter((kind) => kinds.has(kind)).map((kind) => h("span", { class: `kind k-${kind}` }, KINDS[kind])));
    }
    const faces = groups.reduce((sum, group) => sum + group.faces.length, 0);
    const active = groups.reduce((sum, group) => sum + group.faces.filter(({ face }) => bits(face) > 0).length, 0);
    const text = `${groups.length > 1 ? `${plural(groups.length, "router")}, ${plural(links.length, "link")} between them, ` : ""}${plural(faces, "face")}, ${active} with traffic`;
    say(this.note, text);
    this.svg.setAttribute("aria-label", `Map: ${text}. The same is in the tables of faces.`);
  }
}
