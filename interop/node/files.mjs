// The ndn6-file-server protocol: a client on the library's client, and a server on the library's
// codecs of metadata and listings.
import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

import { produce as answer } from "@ndn/endpoint";
import { buildDirectoryListing, Client, FileMetadata, lsKeyword } from "@ndn/fileserver";
import { Segment, Version } from "@ndn/naming-convention2";
import { Component, Data, Name, TT } from "@ndn/packet";
import { makeMetadataPacket, MetadataKeyword } from "@ndn/rdr";
import { BufferChunkSource, DataProducer } from "@ndn/segmented-object";

import { sha256 } from "./objects.mjs";
import { emit, registerPrefixes, untilStdinCloses, uri } from "./session.mjs";

const NACK_CONTENT = 3;

/** Walks everything under a path and reports each file and directory. */
export async function walk({ name, path = "" }, checker) {
  const client = new Client(new Name(name), { verifier: checker, retx: 3 });
  const visit = async (relPath) => {
    const metadata = await client.stat(relPath);
    if (metadata.isDir) {
      emit("directory", { path: relPath, mode: metadata.mode });
      for await (const entry of client.readdir(metadata)) {
        await visit(relPath ? `${relPath}/${entry.name}` : entry.name);
      }
      return;
    }
    const whole = await client.readFile(metadata);
    emit("file", {
      path: relPath, size: metadata.size, mode: metadata.mode, mtime_ms: metadata.mtime.getTime(),
      octets: whole.length, segment_octets: metadata.segmentSize, sha256: sha256(whole),
    });
  };
  await visit(path);
  emit("walked", checker.report());
}

/** Registers `name` and serves a directory until standard input closes. */
export async function serveFiles(face, { name, directory, segmentOctets }, { signer, certificate }, commandSigner) {
  const server = new Server(new Name(name), directory, Number(segmentOctets), signer);
  const registered = registerPrefixes(face, commandSigner);
  answer(server.prefix, (interest) => server.answer(interest), { concurrency: 16 });
  if (certificate) {
    answer(certificate.name.getPrefix(-2), async () => certificate.data);
  }
  await registered;
  emit("ready", { name: uri(server.prefix) });
  await untilStdinCloses();
}

class Server {
  constructor(prefix, directory, segmentOctets, signer) {
    Object.assign(this, { prefix, directory, segmentOctets, signer });
  }

  /** Answers discovery with metadata or an application-level Nack, and segment requests with Data or nothing. */
  async answer({ name }) {
    const rest = name.slice(this.prefix.length).comps;
    const depth = rest.findIndex(({ type }) => type !== TT.GenericNameComponent);
    if (depth < 0) {
      return undefined;
    }
    const path = rest.slice(0, depth).map((component) => component.text);
    const suffix = rest.slice(depth).filter((component) => !component.equals(lsKeyword));
    const discovery = suffix[0]?.equals(MetadataKeyword);
    try {
      const resource = await this.resource(path);
      return discovery ? await this.metadata(resource, name) : await this.segment(resource, suffix);
    } catch {
      return discovery ? this.refusal(name) : undefined;
    }
  }

  async resource(path) {
    if (path.some((part) => part === ".." || part.includes("/"))) {
      throw new Error("the path leaves the served directory");
    }
    const file = join(this.directory, ...path);
    const status = await stat(file, { bigint: true });
    const base = this.prefix.append(...path.map((part) => new Component(TT.GenericNameComponent, part)));
    const unversioned = status.isDirectory() ? base.append(lsKeyword) : base;
    return { file, status, versioned: unversioned.append(Version, status.mtimeNs) };
  }

  async metadata({ status, versioned }, name) {
    const metadata = new FileMetadata(versioned);
    metadata.mode = Number(status.mode);
    metadata.mtime = new Date(Number(status.mtimeMs));
    if (status.isFile()) {
      const size = Number(status.size);
      metadata.size = size;
      metadata.segmentSize = this.segmentOctets;
      metadata.lastSeg = Math.max(0, Math.ceil(size / this.segmentOctets) - 1);
    }
    return makeMetadataPacket(metadata, { prefix: name.getPrefix(-1), signer: this.signer, freshnessPeriod: 1000 });
  }

  async segment({ file, status, versioned }, [version, segment]) {
    if (!versioned.at(-1).equals(version)) {
      return undefined;
    }
    const payload = status.isDirectory() ? await listing(file) : await contents(file, Number(status.size));
    const source = new BufferChunkSource(payload, { chunkSize: this.segmentOctets });
    const producer = DataProducer.create(source, versioned, { signer: this.signer });
    return producer.getData(segment.as(Segment));
  }

  async refusal(name) {
    const data = new Data(name, Data.ContentType(NACK_CONTENT), Data.FreshnessPeriod(1));
    await this.signer.sign(data);
    return data;
  }
}

async function contents(path, size) {
  const file = await open(path);
  try {
    const payload = new Uint8Array(size);
    await file.read(payload, 0, size, 0);
    return payload;
  } finally {
    await file.close();
  }
}

async function listing(path) {
  const entries = await readdir(path, { withFileTypes: true });
  return buildDirectoryListing(entries.map((entry) => ({ name: entry.name, isDir: entry.isDirectory() })));
}
