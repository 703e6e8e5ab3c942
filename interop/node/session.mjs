// One face to a router, prefix registration on it, and the JSON lines that the test harness reads.
import { readFile, writeFile } from "node:fs/promises";

import { Forwarder } from "@ndn/fw";
import { AltUri } from "@ndn/naming-convention2";
import { ControlResponse, enableNfdPrefixReg, getPrefix } from "@ndn/nfdmgmt";
import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { Data } from "@ndn/packet";
import { Decoder } from "@ndn/tlv";
import { WsTransport } from "@ndn/ws-transport";

/** Writes one event for the harness. */
export function emit(event, fields = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

/** Connects to a router by URI: unix:///path, tcp://host:port, udp://host:port or ws://host:port. */
export async function connect(router) {
  const url = new URL(router);
  switch (url.protocol.slice(0, 3)) {
    case "uni": return UnixTransport.createFace({}, url.pathname);
    case "tcp": return TcpTransport.createFace({}, url.hostname, Number(url.port));
    case "udp": return UdpTransport.createFace({}, url.hostname, Number(url.port));
    case "ws:": return WsTransport.createFace({}, router);
    default: throw new Error(`unknown kind of router URI: ${router}`);
  }
}

/** The prefix that the library uses for management on a face. The library treats faces over UDP as remote. */
export function managementPrefix(face) {
  return getPrefix(face.attributes.local);
}

/** From now on, registers the prefixes of producers by signed commands. Resolves when the router has accepted all. */
export function registerPrefixes(face, signer) {
  const accepted = new Promise((resolve, reject) => {
    const register = managementPrefix(face).append("rib", "register");
    let missing = 0;
    face.fw.addEventListener("annadd", () => { missing += 1; });
    face.fw.addEventListener("pktrx", ({ packet: { l3 } }) => {
      if (!(l3 instanceof Data && register.isPrefixOf(l3.name))) {
        return;
      }
      const { statusCode, statusText } = Decoder.decode(l3.content, ControlResponse);
      if (statusCode !== 200) {
        reject(new Error(`the router refused the registration: ${statusCode} ${statusText}`));
      }
      missing -= 1;
      if (missing === 0) {
        resolve();
      }
    });
  });
  enableNfdPrefixReg(face, { signer, retry: { retries: 3, minTimeout: 200 } });
  return accepted;
}

/** Waits until standard input is closed. So a test that is killed leaves no producer behind. */
export async function untilStdinCloses() {
  for await (const _ of process.stdin) {
    // the input itself is ignored
  }
}

/** Closes the face, and all producers and consumers on it. */
export function disconnect() {
  Forwarder.getDefault().close();
}

/** One TLV from a file: raw octets, base64 lines, or base64 between armour lines. */
export async function readPacket(path) {
  const octets = await readFile(path);
  if (octets[0] === 0x06) {
    return octets;
  }
  const lines = octets.toString("latin1").split("\n").filter((line) => !line.includes("-----") && !line.includes(":"));
  return Buffer.from(lines.join(""), "base64");
}

/** One Data from a file. */
export async function readData(path) {
  return Decoder.decode(await readPacket(path), Data);
}

/** Writes one TLV to a file, in base64 lines of 64 characters, the format of ndnsec. */
export async function writePacket(path, octets) {
  const lines = Buffer.from(octets).toString("base64").match(/.{1,64}/g);
  await writeFile(path, `${lines.join("\n")}\n`);
}

/** A name as a URI with the short forms of typed components (`v=1`, `seg=0`). */
export function uri(name) {
  return AltUri.ofName(name);
}
