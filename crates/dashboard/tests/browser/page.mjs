// The page in a real browser. Each check prints one line.

import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { HOSTILE, World, eventually, sleep } from "./world.mjs";

const PAGE_OCTETS_MAX = 300_000;
const PAINT_MS_MAX = 300;
const FACES = 500;
/** A frame that took so long was missed at 60 a second. */
const FRAME_MS_MAX = 34;
/** Time for which the page's thread may run in a second, ms. Frames at 60 a second leave more. */
const BUSY_MS_MAX = 400;

const load1 = () => loadavg()[0].toFixed(1);

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [images, figures] = ["--images", "--figures"].map((flag) => process.argv.includes(flag));
let [passed, failed] = [0, 0];

async function check(what, run) {
  try {
    const said = await run();
    passed += 1;
    console.log(`ok      ${what}${said ? `: ${said}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${what}\n        ${String(error.stack ?? error).split("\n").slice(0, 6).join("\n        ")}`);
  }
}

function holds(is, what) {
  if (!is) throw new Error(what);
}

const world = new World();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
try {
  await world.begin();
  await suite();
} catch (error) {
  failed += 1;
  console.log(`FAILED  ${error.stack}`);
} finally {
  await browser.close();
  world.end();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

/** A page, with its requests and its errors. */
async function open(options = {}, url = world.url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.asked = [];
  page.complaints = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("console", (message) => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.on("pageerror", (error) => page.complaints.push(error.message));
  page.on("dialog", (dialog) => { page.complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(url);
  await page.waitForSelector(".tile dd");
  return page;
}

async function go(page, view) {
  await page.evaluate((hash) => { location.hash = hash; }, view);
  await page.waitForSelector(`#views a[href="#${view}"][aria-current=page]`);
}

function choose(page, router) {
  return page.selectOption("#chosen-router", String(router));
}

async function axe(page) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}

async function suite() {
  const stopLoad = world.load();
  const page = await open();

  await check("the token leaves the address bar at once", async () => {
    holds(!page.url().includes("token"), page.url());
    await page.waitForFunction(() => !document.querySelector("#views a[href='#faces']").hidden);
  });

  await check("numbers change by themselves", async () => {
    await choose(page, 0);
    await page.waitForSelector("#live[data-state=live]");
    const text = () => page.locator(".tiles").innerText();
    const before = await text();
    await eventually("another number", async () => (await text()) !== before);
    await eventually("a rate", async () => /[kM]bit\/s/.test(await text()));
  });

  await check("the map has both routers, the link between them and the faces", async () => {
    await page.waitForFunction(() => document.querySelectorAll(".map .hub").length === 2 && document.querySelectorAll(".map .trunk").length === 1);
    const label = await page.locator("svg.map").getAttribute("aria-label");
    holds(/2 routers, 1 link between them, \d+ faces/.test(label), label);
  });

  await check("faces are in a table that sorts, filters and lines up", async () => {
    await go(page, "faces");
    await page.locator("th button", { hasText: "Face" }).first().click();
    await page.waitForSelector("th[aria-sort]");
    await page.fill("input.filter", "udp4");
    await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].every((row) => row.innerText.includes("udp4")) && document.querySelectorAll("tbody tr").length > 0);
    const aligned = await page.evaluate(() => getComputedStyle(document.querySelector("td.num")).textAlign);
    holds(aligned === "right", aligned);
    await page.fill("input.filter", "");
  });

  await check("routes and strategies are changed with the token, after a question", async () => {
    await go(page, "routes");
    const add = page.locator("form[aria-label='Add a route']");
    await add.locator("[name=prefix]").fill("/made/here");
    await add.locator("[name=face]").fill("1");
    await add.locator("button").click();
    const row = page.locator("tr", { hasText: "/made/here" });
    await row.waitFor();
    holds(world.run("route", "list", "--router", world.near).includes("/made/here"), "the router has it");
    await row.locator("button").click();
    await page.locator("#confirm button[value=no]").click();
    await row.locator("button").click();
    await page.locator("#confirm-yes").click();
    await row.waitFor({ state: "detached" });
    holds(!world.run("route", "list", "--router", world.near).includes("/made/here"), "the router has it no more");
    await page.locator("tr", { hasText: "asf" }).waitFor();
  });

  await check("the store is shown by tier", async () => {
    await go(page, "store");
    await page.waitForFunction(() => /Memory[\s\S]*Data[\s\S]*Disk[\s\S]*Folder/.test(document.querySelector("main").innerText));
  });

  await check("names that are asked for just now are told while they are looked at, and hostile ones are text", async () => {
    const stop = world.asks("hot", HOSTILE);
    const traces = () => page.asked.filter((url) => url.includes("/api/names")).length;
    holds(traces() === 0, "nobody has looked at names");
    await go(page, "names");
    const row = page.locator("tr", { hasText: "/hot/" });
    await row.waitFor();
    holds((await page.locator("main img").count()) === 0 && (await page.locator("main script").count()) === 0, "markup came of a name");
    holds(/\d+ %/.test(await row.innerText()), await row.innerText());
    stop();
    await row.waitFor({ state: "detached" });
    const asked = traces();
    await go(page, "store");
    await sleep(1500);
    holds(asked === 1 && traces() === asked, `${asked}, ${traces()} streams`);
  });

  await check("drops say what they mean", async () => {
    await go(page, "drops");
    const row = page.locator("tr", { hasText: "forwarder.no_route" });
    await row.waitFor();
    holds((await row.innerText()).includes("there is no face to go to"), await row.innerText());
  });

  await check("the explorer lists and fetches, verified, and hostile names and contents are text", async () => {
    await go(page, "explore");
    await page.fill("#explore-name", "/lab/data");
    await page.keyboard.press("Enter");
    await page.locator("button.link", { hasText: HOSTILE }).waitFor();
    holds((await page.locator("main img").count()) === 0 && (await page.locator("main script").count()) === 0, "markup came of a name");
    await page.locator("button.link", { hasText: "readme.txt" }).click();
    await page.locator("pre").waitFor();
    const text = await page.locator("pre").innerText();
    holds(text.includes("<script>alert(1)</script>") && (await page.locator("pre script").count()) === 0, text);
    holds((await page.locator(".tag.good").innerText()) === "verified", "it says that it is verified");
  });

  await check("keys choose views, find the filter and pause", async () => {
    await page.locator("h1").click();
    await page.keyboard.press("2");
    await page.waitForSelector("#views a[href='#faces'][aria-current=page]");
    await page.keyboard.press("/");
    holds(await page.evaluate(() => document.activeElement.matches("input.filter")), "the filter has the keys");
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await page.waitForSelector("#live[data-state=paused]");
    await page.keyboard.press("p");
    await page.waitForSelector("#live[data-state=live]");
    await page.keyboard.press("Tab");
    holds(await page.evaluate(() => document.activeElement !== document.body), "the tabulator goes on");
  });

  await check("keys choose a view after every other view", async () => {
    const views = await page.evaluate(() => [...document.querySelectorAll("#views a")].filter((link) => !link.hidden).map((link) => link.hash.slice(1)));
    holds(views.includes("router") && views.length <= 9, views.join());
    for (const [index, view] of views.entries()) {
      await go(page, view);
      const next = (index + 1) % views.length;
      await page.keyboard.press(String(next + 1));
      await page.waitForSelector(`#views a[href="#${views[next]}"][aria-current=page]`);
    }
  });

  for (const colorScheme of ["light", "dark"]) {
    await check(`axe finds nothing in any view, ${colorScheme}`, async () => {
      await page.emulateMedia({ colorScheme });
      const found = [];
      for (const view of ["overview", "faces", "routes", "store", "names", "drops", "router", "explore"]) {
        await go(page, view);
        found.push(...(await axe(page)).map((fault) => `${view}: ${fault}`));
      }
      holds(found.length === 0, found.slice(0, 4).join("\n"));
    });
  }

  await check("nothing is wider than a narrow window", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    for (const view of ["overview", "faces", "routes", "store", "names", "drops", "explore"]) {
      await go(page, view);
      const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      holds(width <= room, `${view} is ${width} wide`);
    }
    await page.setViewportSize({ width: 1280, height: 860 });
  });

  await check("the table of faces fits a usual window", async () => {
    await go(page, "faces");
    const [inner, outer] = await page.evaluate(() => [document.querySelector(".scroll").scrollWidth, document.querySelector(".scroll").clientWidth]);
    holds(inner <= outer, `${inner} of ${outer}`);
    await page.setViewportSize({ width: 380, height: 844 });
    const [pause, brand] = await page.evaluate(() => ["#pause", ".brand"].map((at) => document.querySelector(at).getBoundingClientRect()));
    holds(pause.top < brand.bottom, "Pause is in the first line");
    await page.setViewportSize({ width: 1280, height: 860 });
  });

  await check("no other host is asked, and nothing is complained of", async () => {
    const others = page.asked.filter((url) => new URL(url).origin !== world.origin);
    holds(others.length === 0, others.join());
    holds(page.complaints.length === 0, page.complaints.join("\n"));
  });

  await check("without the token everything is seen and nothing can be done", async () => {
    const other = await open({}, `${world.origin}/`);
    await go(other, "routes");
    await other.locator("tr", { hasText: "/lab" }).first().waitFor();
    holds(await other.locator("form[aria-label='Add a route'] button").isDisabled(), "the button is off");
    await go(other, "explore");
    holds(await other.locator("button[type=submit]").isDisabled(), "so is the explorer's");
    await other.context().close();
  });

  await check(`the whole page weighs less than ${PAGE_OCTETS_MAX} octets and is painted within ${PAINT_MS_MAX} ms`, async () => {
    const paints = [];
    let octets = 0;
    // The shortest time counts, because other work on the machine can only delay a page.
    for (let run = 0; run < (figures ? 15 : 7); run += 1) {
      const fresh = await open();
      const [paint, weight] = await fresh.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0].startTime,
        performance.getEntriesByType("resource").filter((entry) => !entry.name.includes("/api/events")).reduce((sum, entry) => sum + entry.transferSize, 0) + performance.getEntriesByType("navigation")[0].transferSize]);
      paints.push(paint);
      octets = weight;
      await fresh.context().close();
    }
    paints.sort((a, b) => a - b);
    const said = `${octets} octets with headers, painted after ${paints.map(Math.round).join(", ")} ms at load ${load1()}`;
    holds(octets > 20000 && octets < PAGE_OCTETS_MAX && paints[0] < PAINT_MS_MAX, said);
    return said;
  });

  if (images) await pictures();

  await check("a router that starts anew under the page is said, and the page goes on", async () => {
    await choose(page, 0);
    await go(page, "overview");
    await world.stop("desk");
    await page.waitForSelector("#live[data-state=gone]");
    await page.locator(".banner", { hasText: "retrying" }).waitFor();
    await world.startNear();
    await page.locator(".banner.note", { hasText: "restarted at" }).waitFor();
    await page.waitForSelector("#live[data-state=live]");
  });

  await stopLoad();

  await check(`${FACES} faces take less of the page's thread than frames at 60 a second leave`, async () => {
    const leave = await world.crowd(FACES);
    const said = [];
    for (const view of ["overview", "faces"]) {
      const fresh = await open();
      await choose(fresh, 0);
      await go(fresh, view);
      const [what, count] = view === "faces" ? ["tbody tr", 100] : [".map .face", FACES];
      await fresh.waitForFunction(([what, count]) => document.querySelectorAll(what).length >= count, [what, count]);
      const { perSecond, late, longest, parts: [busy, ...of] } = await frames(fresh, figures ? 20000 : 5000);
      said.push(`${view}: ${busy.toFixed(0)} ms of its thread a second (script, layout, style: ${of.map(Math.round).join(", ")}), ${perSecond.toFixed(1)} frames a second, ${late} late, the longest ${Math.round(longest)} ms`);
      holds(busy < BUSY_MS_MAX, said.at(-1));
      // Other work on the machine delays frames, so their rate is checked only on an idle machine.
      holds(perSecond > 55 || loadavg()[0] > 2, said.at(-1));
      if (view === "faces") {
        await eventually("all rows, by scrolling", () => fresh.evaluate((faces) => {
          const box = document.querySelector(".scroll");
          box.scrollTop = box.scrollHeight;
          return document.querySelectorAll("tbody tr").length >= faces;
        }, FACES));
      }
      await fresh.context().close();
    }
    leave();
    return `${said.join("; ")} (load ${load1()})`;
  });

  await check("the dashboard says that it is gone when it is", async () => {
    await world.stop("page");
    await page.locator(".banner", { hasText: "does not answer" }).waitFor();
  });

  if (figures) await measured();
}

/**
 * Frames per second, the number of late ones, the longest, ms, and the time of the page's thread,
 * ms per second.
 */
async function frames(page, ms) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return ["Task", "Script", "Layout", "RecalcStyle"].map((part) => metrics.find(({ name }) => name === `${part}Duration`).value * 1000);
  };
  const before = await busy();
  const times = await page.evaluate((ms) => new Promise((resolve) => {
    const times = [];
    const end = performance.now() + ms;
    let last = performance.now();
    const step = (now) => {
      times.push(now - last);
      last = now;
      if (now < end) requestAnimationFrame(step);
      else resolve(times);
    };
    requestAnimationFrame(step);
  }), ms);
  const seconds = times.reduce((sum, time) => sum + time, 0) / 1000;
  const parts = (await busy()).map((ms, index) => (ms - before[index]) / seconds);
  return { perSecond: times.length / seconds, late: times.filter((time) => time > FRAME_MS_MAX).length, longest: Math.max(...times), parts };
}

async function pictures() {
  mkdirSync(process.env.IMAGES, { recursive: true });
  const page = await open({ viewport: { width: 1200, height: 900 } });
  await choose(page, 0);
  const leave = await world.crowd(7);
  world.run("face", "create", `tcp://127.0.0.1:${world.nearTcp}`, "--router", world.near);
  // The charts need some history.
  await sleep(30000);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await sleep(500);
    writeFileSync(join(process.env.IMAGES, `dashboard-${colorScheme}.png`), await page.screenshot());
  }
  await page.context().close();
  writeFileSync(join(process.env.IMAGES, "top.svg"), terminal("namely top --once", world.run("top", "--once", "--interval", "2", "--router", world.near)));
  leave();
}

/** The output of a command in a terminal, as a picture. */
function terminal(command, said) {
  const lines = [`$ ${command}`, ...said.trimEnd().split("\n").slice(0, 30)];
  const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const rows = lines.map((line, index) => `<text x="14" y="${26 + index * 17}" xml:space="preserve">${escape(line)}</text>`);
  const [width, height] = [28 + Math.max(...lines.map((line) => line.length)) * 7.3, 24 + lines.length * 17];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${height}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#e5e9ed">\n` +
    `<rect width="100%" height="100%" rx="8" fill="#1a2027"/>\n${rows.join("\n")}\n</svg>\n`;
}

/** The cost of the process: without a page and with one page, for the same number of faces. */
async function measured() {
  const leave = await world.crowd(FACES);
  world.start("page", "dashboard", "--listen", "127.0.0.1:0", "--router", world.near);
  await eventually("the address", () => /http:\S+/.test(world.children.get("page").said));
  world.url = /http:\S+/.exec(world.children.get("page").said)[0];
  const cost = async (what, seconds) => {
    const before = ["page", "desk"].map((name) => world.cpuMs(name));
    await sleep(seconds * 1000);
    const after = ["page", "desk"].map((name) => world.cpuMs(name));
    const part = after.map((ms, index) => `${((ms - before[index]) / seconds / 10).toFixed(1)} %`);
    console.log(`figure  ${what}, ${FACES} faces: the dashboard's process ${part[0]} of a core, the router's ${part[1]} (load ${load1()})`);
  };
  await cost("nobody watches", 20);
  const page = await open();
  await sleep(2000);
  await cost("one page open", 20);
  await page.context().close();
  leave();
}
