// The known state of the routers: read from the stream of events, retained, and passed to the views.

const HISTORY = 120;
const TOKEN = "namely-token";

export const state = {
  routers: [], // {sections, faces: Map, history, notes}
  words: {},
  hasHistory: false,
  chosen: 0,
  link: "connecting", // connecting, live, gone, token
  isPaused: false,
  token: null,
  tokenWorks: false,
};

const listeners = new Set();
let isTold = false;

export const onChange = (listener) => listeners.add(listener);

/** Notifies all views, once a frame at most. */
export function tell() {
  if (isTold) return;
  isTold = true;
  requestAnimationFrame(() => {
    isTold = false;
    for (const listener of listeners) listener();
  });
}

export const router = () => state.routers[state.chosen];

function newRouter() {
  return { sections: {}, faces: new Map(), history: [], restarted: null, isStale: true };
}

/** Takes the token behind the #, and removes it from the address bar. */
export function takeToken() {
  const given = /^#token=([0-9a-f]+)$/.exec(location.hash);
  try {
    if (given) sessionStorage.setItem(TOKEN, given[1]);
    state.token = sessionStorage.getItem(TOKEN);
  } catch {
    state.token = given ? given[1] : null;
  }
  if (given) history.replaceState(null, "", "#overview");
}

const headers = () => (state.token ? { Authorization: `Bearer ${state.token}` } : {});

/** The content of a response; an error with its text and hint if the dashboard refused the request. */
async function contentOf(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(answer.error ?? `the dashboard answers ${response.status}`);
    error.hint = answer.hint;
    throw error;
  }
  return answer;
}

/** Sends a command to the dashboard; returns its answer, or an error with its text. */
export async function post(path, body) {
  return contentOf(await fetch(path, {
    method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify({ router: state.chosen, ...body }),
  }));
}

/** The points of a router over the last `span` seconds, from the Prometheus server of the dashboard. */
export async function readHistory(index, span) {
  return (await contentOf(await fetch(`/api/history?router=${index}&span=${span}`, { headers: headers() }))).points;
}

export async function begin() {
  fetch("/api/words", { headers: headers() }).then((response) => response.json()).then((words) => {
    state.words = words.meanings;
    state.hasHistory = words.history;
    tell();
  }).catch(() => {});
  if (state.token) {
    fetch("/api/token", { headers: headers() }).then((response) => {
      state.tokenWorks = response.ok;
      tell();
    }).catch(() => {});
  }
  for (let wait = 250; ; wait = Math.min(wait * 2, 4000)) {
    try {
      if (await listen()) wait = 250;
    } catch { /* it is requested again */ }
    if (state.link !== "token") state.link = "gone";
    tell();
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** Reads the stream to its end. Returns whether there was one. */
async function listen() {
  const stop = new AbortController();
  const response = await fetch("/api/events", { headers: headers(), signal: stop.signal });
  if (!response.ok) {
    state.link = response.status === 401 ? "token" : "gone";
    return false;
  }
  await readEvents(response, stop, take);
  return true;
}

/** Passes the requested names of a router to `say` until the controller `stop` ends it; returns the status. */
export async function listenNames(index, stop, say) {
  const response = await fetch(`/api/names?router=${index}`, { headers: headers(), signal: stop.signal });
  if (response.ok) {
    await readEvents(response, stop, (text) => {
      const [name, data] = parse(text);
      if (name === "names") say(data);
    });
  }
  return response.status;
}

/** Passes each event of a stream to `each`, to its end. EventSource could not send the token. */
async function readEvents(response, stop, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  // The dashboard sends an event at least every five seconds.
  let watchdog = setTimeout(() => stop.abort(), 15000);
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) break;
    clearTimeout(watchdog);
    watchdog = setTimeout(() => stop.abort(), 15000);
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    events.forEach(each);
  }
  clearTimeout(watchdog);
}

function parse(text) {
  const [first, second] = text.split("\n");
  return [first.slice("event: ".length), JSON.parse(second.slice("data: ".length))];
}

function take(text) {
  const [name, data] = parse(text);
  state.link = "live";
  if (name === "state") {
    data.routers.forEach((whole, index) => {
      const known = (state.routers[index] ??= newRouter());
      // Old data stays visible until newer data arrives.
      known.isStale = Object.keys(whole.sections).length === 0;
      if (known.isStale) return;
      known.faces = new Map(Object.entries(whole.faces));
      merge(known, whole.sections);
    });
  } else if (name === "change") {
    const known = state.routers[data.router];
    if (!known) return;
    if (known.isStale && data.sections.router) {
      known.faces = new Map();
      known.isStale = false;
    }
    for (const [id, face] of Object.entries(data.faces)) known.faces.set(id, face);
    for (const id of data.gone) known.faces.delete(String(id));
    merge(known, data.sections);
  }
  tell();
}

function merge(known, sections) {
  const before = known.sections.router;
  const now = sections.router;
  if (now && before && now.up_s < before.up_s) {
    known.restarted = { at: Date.now(), text: `The router restarted at ${new Date(now.start_ms).toLocaleTimeString()}.` };
    known.history = [];
  }
  Object.assign(known.sections, sections);
  if (!now) return;
  // The router's totals include faces that closed meanwhile. The polling of the page is left out.
  const [inward, outward] = now.octets;
  const memory = known.sections.store?.tiers[0];
  const asked = memory ? memory.hits + memory.misses : 0;
  known.history.push({
    at: Date.now(), bits: [inward * 8, outward * 8], interests: now.interests, data: now.data, hits: asked > 0 ? memory.hits / asked : null,
  });
  if (known.history.length > HISTORY) known.history.shift();
}
