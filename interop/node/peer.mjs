// NDNts as the other side of namely's interoperability tests.
//
// Each subcommand does one task of an application on NDNts, and writes JSON lines. The tests in interop/tests
// start it. It also runs by hand: `node peer.mjs fetch --router unix:///… /name`.
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";

import { Data, Name } from "@ndn/packet";
import { Encoder } from "@ndn/tlv";

import * as files from "./files.mjs";
import * as keys from "./keys.mjs";
import * as management from "./management.mjs";
import * as objects from "./objects.mjs";
import { connect, disconnect, emit, readData, uri } from "./session.mjs";

const text = { type: "string" };
const options = {
  router: text, // unix:///path, tcp://host:port or udp://host:port
  payload: text, directory: text, out: text, path: text,
  "segment-octets": { type: "string", default: "1000" },
  sign: { type: "string", default: "digest" },
  identity: { type: "string", default: "/ndnts" },
  "hmac-key": text, // hex
  "write-data": text, "write-certificate": text, "write-key": text,
  "command-sign": text, "command-key": text, "command-certificate": text,
  certificate: { type: "string", multiple: true },
  "accept-unsigned": { type: "boolean" },
  "fetch-certificates": { type: "boolean" },
  "load-key": text, "load-certificate": text,
  name: text, strategy: text, uri: text, "face-id": text, cost: text, origin: text, "expiration-period": text,
};

/** Each action takes the options, with the first argument as `name`. */
const actions = {
  "new-key": async (o) => emit("made", { name: uri((await keys.newKey(o)).name) }),
  produce: async (o) => objects.produce(
    await connect(o.router), o, await keys.makeIdentity(o), await keys.commandSigner(o)),
  fetch: async (o) => {
    await connect(o.router);
    await objects.fetch(o, await keys.Checker.create(o));
  },
  "serve-files": async (o) => files.serveFiles(
    await connect(o.router), o, await keys.makeIdentity(o), await keys.commandSigner(o)),
  "walk-files": async (o) => {
    await connect(o.router);
    await files.walk(o, await keys.Checker.create(o));
  },
  command: async (o) => management.command(
    await connect(o.router), o.argument, controlParameters(o), await keys.commandSigner(o)),
  announce: async (o) => management.announce(
    await connect(o.router), o, await keys.makeIdentity(o), await keys.commandSigner(o)),
  dataset: async (o) => management.dataset(await connect(o.router), o.argument),
  "no-route": async (o) => management.noRoute(await connect(o.router), new Name(o.name)),
  sign, check, issue,
};

async function sign(o) {
  const { signer } = await keys.makeIdentity(o);
  const data = new Data(new Name(o.name), Data.FreshnessPeriod(10_000), Buffer.from("signed by NDNts"));
  await signer.sign(data);
  await writeFile(o.writeData, Encoder.encode(data));
  emit("signed");
}

async function check(o) {
  const checker = await keys.Checker.create(o);
  const data = await readData(o.argument);
  const good = await checker.verify(data).then(() => true, () => false);
  emit("checked", { good, name: uri(data.name), octets: data.content.length, ...checker.report() });
}

async function issue(o) {
  const certificate = await keys.issue(await keys.makeIdentity(o), await keys.readCertificate(o.argument));
  await keys.writeCertificateTo(o.out, certificate);
  emit("issued", { name: uri(certificate.name) });
}

function controlParameters({ name, strategy, uri, faceId, cost, origin, expirationPeriod }) {
  const given = {
    name: name && new Name(name),
    strategy: strategy && new Name(strategy),
    uri,
    faceId: faceId && Number(faceId),
    cost: cost && Number(cost),
    origin: origin && Number(origin),
    expirationPeriod: expirationPeriod && Number(expirationPeriod),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function camelCase(option) {
  return option.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase());
}

async function main() {
  const { values, positionals: [action, argument] } = parseArgs({ options, allowPositionals: true });
  const o = Object.fromEntries(Object.entries(values).map(([key, value]) => [camelCase(key), value]));
  await actions[action]({ ...o, argument, name: o.name ?? argument });
}

try {
  await main();
} catch (error) {
  emit("error", { kind: error.name, message: error.message });
  process.exitCode = 1;
} finally {
  disconnect();
}
// Otherwise the library's timers would keep the process running.
process.exit();
