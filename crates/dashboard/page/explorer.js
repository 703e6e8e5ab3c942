// Data below a name: listed and fetched by the dashboard through the router, verified there.

import { h, say } from "./dom.js";
import { octets, whole } from "./format.js";
import { post, router, state } from "./state.js";

/** The prefixes of a name: [label, name] of each. */
export function crumbs(name) {
  const components = name.split("/").filter(Boolean);
  return components.map((label, index) => [label, `/${components.slice(0, index + 1).join("/")}`]);
}

export class Explorer {
  constructor() {
    this.input = h("input", { class: "wide name", id: "explore-name", name: "name", placeholder: "/lab/data", autocomplete: "off", spellcheck: "false", required: true, maxlength: 4000 });
    this.go = h("button", { class: "primary", type: "submit" }, "Look");
    const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); this.look(this.input.value.trim()); } },
      h("label", { class: "field", for: "explore-name" }, "Name"), this.input, this.go);
    this.hint = h("p", { class: "muted" });
    this.path = h("nav", { class: "crumbs", "aria-label": "Components of the name" });
    this.result = h("div", { "aria-live": "polite" });
    this.starts = h("ul", { class: "names" });
    this.element = h("div", { class: "split" },
      h("section", { class: "card stack" }, h("h2", {}, "Explore names"), form, this.hint, this.path, this.result),
      h("section", { class: "card" }, h("h2", {}, "Where to begin: prefixes with routes"), this.starts));
    this.shape = "";
  }

  update() {
    this.go.disabled = !state.tokenWorks;
    say(this.hint, state.tokenWorks ? "Fetched through the router, and shown only with a trusted signature."
      : "To fetch names, open the address that `namely dashboard` printed: the token is after the #.");
    const prefixes = [...new Set((router()?.sections.routes?.shown ?? []).map((route) => route.prefix))].filter((prefix) => !prefix.startsWith("/localhost") && !prefix.endsWith("…")).slice(0, 60);
    const shape = `${prefixes.join()} ${state.tokenWorks}`;
    if (shape === this.shape) return;
    this.shape = shape;
    this.starts.replaceChildren(...(prefixes.length ? prefixes.map((prefix) => h("li", {}, this.link(prefix, prefix))) : [h("li", { class: "muted" }, "No routes yet.")]));
  }

  link(label, name) {
    return h("button", { class: "link name", type: "button", disabled: !state.tokenWorks, onclick: () => this.look(name) }, label);
  }

  async look(name) {
    if (!name || !state.tokenWorks) return;
    this.input.value = name;
    this.path.replaceChildren(...crumbs(name).flatMap(([label, prefix]) => ["/", this.link(label, prefix)]));
    this.result.replaceChildren(h("p", { class: "muted" }, "Fetching."));
    const turn = (this.turn = (this.turn ?? 0) + 1);
    let shown;
    try {
      shown = this.show(await post("/api/explore", { name }));
    } catch (error) {
      shown = [h("p", {}, h("span", { class: "tag bad" }, "not shown"), ` ${error.message}`), error.hint && h("p", { class: "muted" }, error.hint)].filter(Boolean);
    }
    if (turn === this.turn) this.result.replaceChildren(...shown);
  }

  show({ kind, about, directory, content }) {
    const facts = [["Name", about.name], ["Size", about.octets === null ? null : octets(about.octets)], ["Segments", about.segments && whole(about.segments)],
      ["Changed", about.mtime_ms && new Date(about.mtime_ms).toLocaleString()], ["Signed by", about.signer]];
    const list = h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([term, value]) => [h("dt", {}, term), h("dd", { class: term === "Name" || term === "Signed by" ? "name" : undefined }, value)]));
    const verdict = h("p", {}, h("span", { class: "tag good" }, "verified"), ` ${kind === "directory" ? `a directory of ${whole(directory.total)}` : "an object"}`);
    return [verdict, list, kind === "directory" ? this.entries(directory) : this.content(content)];
  }

  entries({ total, entries }) {
    const rows = entries.map((entry) => h("li", {}, h("span", { class: "tag" }, entry.directory ? "dir" : "file"), this.link(entry.label, entry.name)));
    if (total > entries.length) rows.push(h("li", { class: "muted" }, `and ${whole(total - entries.length)} more`));
    return h("ul", { class: "names" }, rows);
  }

  content({ text, hex, shown, cut }) {
    const lines = text ?? (hex.match(/.{1,32}/g) ?? []).map((line) => line.replace(/../g, "$& ")).join("\n");
    return h("div", { class: "stack" }, cut || text === undefined ? h("p", { class: "muted" }, `${text === undefined ? "No text: the first octets" : "The beginning"} of ${octets(shown)} fetched`) : null, h("pre", { tabindex: "0" }, lines));
  }
}
