// Real routers, a file server and a dashboard, in a folder of their own. `end` removes all of them.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const HOSTILE = "<img src=x onerror=alert(1)>";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function eventually(what, done, limit = 20000) {
  for (const end = Date.now() + limit; Date.now() < end; await sleep(50)) {
    if (await done()) return;
  }
  throw new Error(`waited in vain for ${what}`);
}

export class World {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), "namely-page-"));
    this.children = new Map();
    this.env = { ...process.env, HOME: this.dir, NAMELY_HOME: join(this.dir, "home") };
    for (const name of ["NAMELY_ROUTER", "NAMELY_LOG", "NDN_CLIENT_TRANSPORT"]) delete this.env[name];
    this.near = `unix://${join(this.dir, "desk.sock")}`;
    this.far = `unix://${join(this.dir, "lab.sock")}`;
  }

  /** Runs the command to its end. */
  run(...words) {
    return execFileSync(process.env.NAMELY_BIN, words, { env: this.env, cwd: this.dir, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 60000 });
  }

  tryRun(...words) {
    try {
      return this.run(...words);
    } catch (error) {
      return error.stderr ?? "";
    }
  }

  /** Starts the command and records its output. */
  start(name, ...words) {
    const child = spawn(process.env.NAMELY_BIN, words, { env: this.env, cwd: this.dir, stdio: ["ignore", "pipe", "pipe"] });
    child.said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => { child.said += text; });
    this.children.set(name, child);
    return child;
  }

  async stop(name) {
    const child = this.children.get(name);
    this.children.delete(name);
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }

  async startRouter(name, uri, extra) {
    const file = join(this.dir, `${name}.toml`);
    writeFileSync(file, extra);
    this.start(name, "up", "--config", file);
    await eventually(name, () => this.tryRun("status", "--json", "--router", uri).startsWith("{"));
    const udp = () => /udp4:\/\/127.0.0.1:(\d+)/.exec(this.children.get(name).said)?.[1];
    await eventually("its UDP port", udp);
    return udp();
  }

  async startNear() {
    const listen = JSON.stringify([this.near, "udp://127.0.0.1:0", "tcp://127.0.0.1:0"]);
    await this.startRouter("desk", this.near, `[faces]\nlisten = ${listen}\nfaces_max = 4096\nmulticast = []\n[cs.disk]\nfolder = ${JSON.stringify(join(this.dir, "disk"))}\n`);
    this.nearTcp = /tcp4:\/\/127.0.0.1:(\d+)/.exec(this.children.get("desk").said)[1];
    this.run("route", "add", "/lab", `udp://127.0.0.1:${this.farUdp}`, "--router", this.near);
    this.run("strategy", "set", "/lab", "asf", "--router", this.near);
    this.run("route", "add", "/lab/%3Cscript%3Ealert%281%29%3C%2Fscript%3E", "1", "--router", this.near);
  }

  async begin() {
    this.farUdp = await this.startRouter("lab", this.far, `[faces]\nlisten = ${JSON.stringify([this.far, "udp://127.0.0.1:0"])}\nmulticast = []\n`);
    await this.startNear();
    mkdirSync(join(this.dir, "data", "calibration"), { recursive: true });
    writeFileSync(join(this.dir, "data", HOSTILE), "x\n");
    writeFileSync(join(this.dir, "data", "readme.txt"), "Run 7, taken in November.\n<script>alert(1)</script>\n");
    writeFileSync(join(this.dir, "data", "run7.root"), Buffer.alloc(4 << 20, 7));
    writeFileSync(join(this.dir, "data", "run8.root"), Buffer.alloc(4 << 20, 8));
    this.start("serve", "serve", "data", "--prefix", "/lab/data", "--router", this.far);
    await eventually("the files", () => this.run("route", "list", "--router", this.far).includes("/lab/data"));
    const page = this.start("page", "dashboard", "--listen", "127.0.0.1:0", "--router", this.near, "--router", this.far);
    await eventually("the address", () => /http:\S+/.test(page.said));
    this.url = /http:\S+/.exec(page.said)[0];
    this.origin = new URL(this.url).origin;
  }

  /** Fetches files, and requests names without Data, until it is stopped. */
  load() {
    let isOn = true;
    const done = (async () => {
      for (let turn = 0; isOn; turn += 1) {
        for (const words of [["get", `/lab/data/run${7 + (turn % 2)}.root`, "-o", join(this.dir, "out")], ["peek", `/elsewhere/${turn}`]]) {
          if (!isOn) break;
          await new Promise((resolve) => spawn(process.env.NAMELY_BIN, [...words, "--router", this.near], { env: this.env, cwd: this.dir, stdio: "ignore" }).once("exit", resolve));
          rmSync(join(this.dir, "out"), { force: true });
        }
        await sleep(200);
      }
    })();
    return async () => { isOn = false; await done; };
  }

  /**
   * Adds `count` faces: applications on the router's Unix socket. Some of them send an Interest now
   * and then.
   */
  async crowd(count) {
    const path = this.near.slice("unix://".length);
    const sockets = [];
    for (let index = 0; index < count; index += 1) {
      const socket = net.createConnection(path);
      socket.on("error", () => {});
      socket.resume();
      sockets.push(socket);
    }
    const timer = setInterval(() => {
      for (const [index, socket] of sockets.entries()) if (index % 3 === Math.floor(Date.now() / 1000) % 3) socket.write(interest(["crowd", String(index)]));
    }, 500);
    await eventually("the faces", () => JSON.parse(this.run("status", "--json", "--router", this.near)).faces >= count);
    return () => { clearInterval(timer); sockets.forEach((socket) => socket.destroy()); };
  }

  /** An application that sends Interests below these components until it is stopped. */
  asks(...components) {
    const socket = net.createConnection(this.near.slice("unix://".length));
    socket.on("error", () => {});
    socket.resume();
    let turn = 0;
    const timer = setInterval(() => socket.write(interest([...components, String((turn += 1))])), 5);
    return () => { clearInterval(timer); socket.destroy(); };
  }

  cpuMs(name) {
    const fields = readFileSync(`/proc/${this.children.get(name).pid}/stat`, "utf8").split(") ")[1].split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  }

  end() {
    for (const child of this.children.values()) child.kill("SIGKILL");
    rmSync(this.dir, { recursive: true, force: true });
  }
}

let nonce = 1;
/** An Interest for the name of these components, with a Nonce (packet format 0.3). */
function interest(components) {
  const component = (text) => Buffer.concat([Buffer.from([8, text.length]), Buffer.from(text)]);
  const name = Buffer.concat(components.map(component));
  const number = Buffer.alloc(6);
  number.writeUInt16BE(0x0a04);
  number.writeUInt32BE((nonce += 1), 2);
  const value = Buffer.concat([Buffer.from([7, name.length]), name, number]);
  return Buffer.concat([Buffer.from([5, value.length]), value]);
}
