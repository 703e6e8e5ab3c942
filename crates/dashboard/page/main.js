// The page: the view, its router, and whether its data is current.

import { h, say } from "./dom.js";
import { Explorer } from "./explorer.js";
import { duration, plural, whole } from "./format.js";
import { begin, onChange, router, state, takeToken, tell } from "./state.js";
import { makeViews, updateControls } from "./views.js";

/** Duration of the note that a router has restarted, ms. */
const NOTE_MS = 30000;

const by = (id) => document.getElementById(id);
const main = by("main");
const views = makeViews((view, index, id) => {
  state.chosen = index;
  views.faces.only(id);
  location.hash = view;
});
const explorer = new Explorer();
views.explore = { title: "Explore", element: explorer.element, update: () => explorer.update() };
let shown = null;

takeToken();

const links = Object.entries(views).map(([key, view], index) => {
  const count = h("span", { class: "count" });
  const link = h("a", { href: `#${key}`, title: `key ${index + 1}` }, view.title, count);
  return { key, view, link, count };
});
by("views").append(...links.map(({ link }) => link));

function show() {
  const wanted = location.hash.slice(1);
  const key = views[wanted] ? wanted : "overview";
  if (key === shown) return;
  views[shown]?.shown?.(false);
  shown = key;
  views[key].shown?.(true);
  for (const { key: its, link } of links) {
    if (its === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${views[key].title} · namely`;
  update();
}

function update() {
  const now = router();
  const hasData = Boolean(now && now.sections.router);
  const view = views[shown];
  if (hasData || shown === "explore") {
    if (main.firstChild !== view.element || main.childNodes.length !== 1) main.replaceChildren(view.element);
    if (now) view.update(now);
  }
  updateFrame();
}

/** The frame of the view, which shows the router even while the view is paused. */
function updateFrame() {
  const now = router();
  main.classList.toggle("old", state.link === "gone" || Boolean(now?.sections.trouble));
  updateHead(now);
  updateBanners(now);
  updateControls();
}

function updateHead(now) {
  const select = by("chosen-router");
  const names = state.routers.map((one, index) => one.sections.router?.address ?? one.sections.trouble?.address ?? `router ${index + 1}`);
  if (select.shape !== names.join("\n")) {
    select.shape = names.join("\n");
    select.replaceChildren(...names.map((label, value) => h("option", { value }, label)));
  }
  select.value = String(state.chosen);
  const about = now?.sections.router;
  say(by("about"), about ? `${about.version} · up ${duration(about.up_s)} · ${plural(about.faces, "face")} · ${plural(about.routes ?? 0, "route")}` : "");
  for (const { view, link, count } of links) {
    const number = now && view.count_ ? view.count_(now) : undefined;
    say(count, number === undefined ? "" : whole(number));
    link.hidden = Boolean(now && view.isThere && !view.isThere(now));
  }
  const isGone = state.link !== "live" || Boolean(now?.sections.trouble);
  const mode = isGone ? "gone" : state.isPaused ? "paused" : "live";
  by("live").dataset.state = mode;
  say(by("live-text"), state.link === "connecting" ? "connecting" : isGone ? "not reached" : mode);
}

function updateBanners(now) {
  const banners = [];
  if (state.link === "token") banners.push(["", "This page needs its token.", "Open the address that `namely dashboard` printed: the token is after the #."]);
  else if (state.link === "gone") banners.push(["", "The dashboard does not answer; retrying.", "The page shows the last known data. Is `namely dashboard` running?"]);
  const trouble = now?.sections.trouble;
  if (trouble && state.link === "live") banners.push(["", `${trouble.what}; retrying.`, trouble.hint ?? ""]);
  if (now?.restarted && Date.now() - now.restarted.at < NOTE_MS) banners.push(["note", now.restarted.text, "Rates start again."]);
  const text = JSON.stringify(banners);
  const box = by("banners");
  if (box.text === text) return;
  box.text = text;
  box.replaceChildren(...banners.map(([className, what, hint]) => h("p", { class: `banner ${className}` }, what, " ", h("small", {}, hint))));
}

function pause() {
  state.isPaused = !state.isPaused;
  by("pause").setAttribute("aria-pressed", String(state.isPaused));
  say(by("pause"), state.isPaused ? "Resume" : "Pause");
  update();
}

function chooseRouter(index) {
  state.chosen = index;
  update();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || by("confirm").open) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const visible = links.filter(({ link }) => !link.hidden);
  if (/^[1-9]$/.test(event.key) && visible[event.key - 1]) {
    location.hash = visible[event.key - 1].key;
  } else if (event.key === "/") {
    const input = main.querySelector(".filter") ?? main.querySelector("input");
    if (!input) return;
    event.preventDefault();
    input.focus();
  } else if (event.key === "p") {
    pause();
  } else if (event.key === "r" && state.routers.length > 1) {
    chooseRouter((state.chosen + 1) % state.routers.length);
  }
}

window.addEventListener("hashchange", () => {
  // A second opened address brings its token.
  if (location.hash.startsWith("#token=")) {
    takeToken();
    location.reload();
  }
  show();
});
document.addEventListener("keydown", onKey);
by("pause").addEventListener("click", pause);
by("chosen-router").addEventListener("change", (event) => chooseRouter(Number(event.target.value)));
onChange(() => (state.isPaused ? updateFrame() : update()));
show();
begin();
setInterval(tell, 5000);
// For measurements.
performance.mark("page-ready");

