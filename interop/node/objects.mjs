// Segmented objects with RDR metadata: producing and fetching them.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

import { consume, produce as answer } from "@ndn/endpoint";
import { Version } from "@ndn/naming-convention2";
import { Interest, Name } from "@ndn/packet";
import { Metadata, retrieveMetadata, serveMetadata } from "@ndn/rdr";
import { BufferChunkSource, fetch as fetchSegments, serve } from "@ndn/segmented-object";

import { emit, registerPrefixes, untilStdinCloses, uri } from "./session.mjs";

const unannounced = { announcement: false };

/** Registers `name` and serves the object and the identity's certificate until standard input closes. */
export async function produce(face, { name, payload, segmentOctets }, { signer, certificate }, commandSigner) {
  const prefix = new Name(name);
  const versioned = prefix.append(Version, Date.now() * 1000);
  const registered = registerPrefixes(face, commandSigner);
  const source = new BufferChunkSource(await readFile(payload), { chunkSize: Number(segmentOctets) });
  serve(versioned, source, { signer, pOpts: unannounced });
  serveMetadata(new Metadata(versioned), { prefix, signer, freshnessPeriod: 1000, pOpts: { announcement: prefix } });
  if (certificate) {
    const key = certificate.name.getPrefix(-2);
    answer(key, async () => certificate.data, { announcement: prefix.isPrefixOf(key) ? false : key });
  }
  await registered;
  emit("ready", { name: uri(versioned) });
  await untilStdinCloses();
}

/** Discovers the newest version through its metadata, fetches all segments and reports the result. */
export async function fetch({ name, out, fetchCertificates }, checker) {
  const retx = 3;
  if (fetchCertificates) {
    checker.fetch = (locator) => consume(new Interest(locator, Interest.CanBePrefix), { retx });
  }
  const metadata = await retrieveMetadata(new Name(name), { verifier: checker, retx });
  const result = fetchSegments(metadata.name, { verifier: checker });
  const whole = await result;
  if (out) {
    await writeFile(out, whole);
  }
  emit("fetched", {
    name: uri(metadata.name),
    octets: whole.length,
    segments: result.count,
    sha256: sha256(whole),
    ...checker.report(),
  });
}

/** Hex of the SHA-256 digest. */
export function sha256(octets) {
  return createHash("sha256").update(octets).digest("hex");
}
