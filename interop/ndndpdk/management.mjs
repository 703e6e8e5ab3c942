// The management of NDN-DPDK for its applications: the part of its GraphQL schema that they use.
// The engine of the package graphql validates and executes requests. Each face of shared memory has
// a namelyd of its own. This namelyd listens on the face's socket. One router connects all of them.
//
//	node management.mjs PROGRAMS FOLDER ROUTER UPSTREAM
//
// PROGRAMS has namely and namelyd. ROUTER is the Unix socket of the one router, and UPSTREAM its
// address for UDP. The program writes events as JSON lines to standard output. The end of standard
// input ends it.
import { execFile, spawn } from "node:child_process";
import dgram from "node:dgram";
import { writeFile } from "node:fs/promises";
import http from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";

import { buildSchema, graphql } from "graphql";

const [programs, folder, router, upstream] = process.argv.slice(2);
const schema = buildSchema(`
  scalar JSON
  scalar Name
  type Strategy { id: ID! }
  type Face { id: ID! locator: JSON! }
  type FibEntry { id: ID! name: Name! nexthops: [Face]! strategy: Strategy }
  type Query {
    faces: [Face!]!
    fib(name: Name): [FibEntry!]!
  }
  type Mutation {
    createFace(locator: JSON!): Face!
    insertFibEntry(name: Name!, nexthops: [ID!]!, strategy: ID, params: JSON): FibEntry!
    delete(id: ID!): Boolean!
  }
`);
const faces = new Map();
const entries = new Map();

function say(event, fields) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

async function namely(at, ...args) {
  const { stdout } = await promisify(execFile)(join(programs, "namely"), ["--json", "--router", at, ...args]);
  return stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

function freePort() {
  return new Promise((resolve) => {
    const socket = dgram.createSocket("udp4");
    socket.bind(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}

// Accepts only the locator of a shared-memory face that NDN-DPDK accepts.
function check({ scheme, role, socketName, id, dataroom, ringCapacity, socketOwner, ...others }) {
  const isOwner = socketOwner === undefined || (socketOwner.length === 2 && socketOwner.every(Number.isInteger));
  if (scheme !== "memif" || role !== "server" || !socketName.startsWith("/") || socketName.length > 108 ||
      ![id, dataroom, ringCapacity].every(Number.isInteger) || !isOwner || Object.keys(others).length > 0) {
    throw new Error("invalid locator");
  }
}

async function createFace({ locator }) {
  check(locator);
  const id = `F${faces.size + 1}`;
  const [port, socket, config] = [await freePort(), join(folder, `${id}.sock`), join(folder, `${id}.toml`)];
  const at = `unix://${socket}`;
  const listen = [at, `memif://${locator.socketName}`, `udp://127.0.0.1:${port}`];
  await writeFile(config, `[faces]\nlisten = ${JSON.stringify(listen)}\n`);
  const daemon = spawn(join(programs, "namelyd"), ["--config", config], { stdio: ["ignore", "ignore", "inherit"] });
  const face = { id, locator, at, udp: `udp4://127.0.0.1:${port}`, daemon };
  faces.set(id, face);
  await namely(at, "wait");
  await namely(at, "route", "add", "/", upstream);
  say("face", { id, locator });
  return face;
}

// Adds or removes routes: at the router of each face to its program, and at the one router to all
// faces.
async function lead(how, name, nexthops) {
  for (const { at, udp } of nexthops) {
    const [memif] = (await namely(at, "face", "list")).filter(({ local }) => local.startsWith("memif://"));
    if (how === "add" || memif) {
      await namely(at, "route", how, name, String(memif.face_id));
    }
    await namely(router, "route", how, name, udp);
  }
}

async function insertFibEntry({ name, nexthops: ids, strategy }) {
  const nexthops = ids.map((id, i) => {
    if (!faces.has(id)) {
      throw new Error(`nexthops[${i}] not found`);
    }
    return faces.get(id);
  });
  if (nexthops.length === 0) {
    throw new Error("nexthops list is empty");
  }
  const old = entries.get(name);
  await lead("add", name, nexthops.filter((face) => !old?.nexthops.includes(face)));
  await lead("remove", name, (old?.nexthops ?? []).filter((face) => !nexthops.includes(face)));
  const entry = { id: `E${name}`, name, nexthops, strategy: strategy ? { id: strategy } : { id: "DEFAULT" } };
  entries.set(name, entry);
  say("entry", { name, nexthops: ids, strategy });
  return entry;
}

async function deleteNode({ id }) {
  const face = faces.get(id);
  const entry = [...entries.values()].find((known) => known.id === id);
  if (face) {
    faces.delete(id);
    face.daemon.kill();
  } else if (entry) {
    entries.delete(entry.name);
    await lead("remove", entry.name, entry.nexthops);
  }
  say("deleted", { id, found: Boolean(face ?? entry) });
  return Boolean(face ?? entry);
}

const rootValue = {
  faces: () => [...faces.values()],
  fib: ({ name }) => [...entries.values()].filter((entry) => name === undefined || entry.name === name),
  createFace,
  insertFibEntry,
  delete: deleteNode,
};

const server = http.createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) {
    body += piece;
  }
  const { query: source, variables: variableValues } = JSON.parse(body);
  const result = await graphql({ schema, source, rootValue, variableValues });
  if (result.errors) {
    say("errors", { messages: result.errors.map(({ message }) => message) });
  }
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(result));
});

function end() {
  faces.forEach(({ daemon }) => daemon.kill());
  process.exit(0);
}

process.on("SIGTERM", end);
process.stdin.on("end", end).resume();
server.listen(0, "127.0.0.1", () => say("ready", { port: server.address().port }));
