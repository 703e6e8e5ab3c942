// Signers, certificates and checks of every signature type that NDNts has.
import { readFile, writeFile } from "node:fs/promises";

import {
  Certificate, CertNaming, createSigner, createVerifier, ECDSA, Ed25519, generateSigningKey, HMAC, RSA, SigningAlgorithmListFull,
} from "@ndn/keychain";
import { Component, digestSigning, Name, nullSigner, SigType, ValidityPeriod } from "@ndn/packet";
import { Encoder } from "@ndn/tlv";

import { readData, uri, writePacket } from "./session.mjs";

const KEY_PAIRS = { rsa: RSA, ecdsa: ECDSA, ed25519: Ed25519 };
export const KINDS = ["digest", "hmac", "null", ...Object.keys(KEY_PAIRS)];

/** `{ signer, certificate }` of one kind. Only a key pair has a certificate: self-signed, or loaded with the key. */
export async function makeIdentity({ sign: kind, identity, hmacKey, loadKey, loadCertificate, writeCertificate }) {
  if (loadKey) {
    const certificate = await readCertificate(loadCertificate);
    return { signer: await loadSigner(kind, loadKey, certificate), certificate };
  }
  const subject = new Name(identity);
  switch (kind) {
    case "digest": return { signer: digestSigning };
    case "null": return { signer: nullSigner };
    case "hmac": {
      const [signer] = await generateSigningKey(subject, HMAC, { importRaw: Buffer.from(hmacKey, "hex") });
      return { signer };
    }
    default: {
      const [signer, publicKey] = await generateSigningKey(subject, KEY_PAIRS[kind]);
      const certificate = await Certificate.selfSign({ privateKey: signer, publicKey });
      if (writeCertificate) {
        await writeCertificateTo(writeCertificate, certificate);
      }
      return { signer, certificate };
    }
  }
}

/** Makes a key pair and writes the private half as PKCS#8. */
export async function newKey({ sign: kind, identity, writeKey, writeCertificate }) {
  const algorithm = KEY_PAIRS[kind];
  const pair = await algorithm.cryptoGenerate({}, true);
  await writeFile(writeKey, new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey)));
  const name = CertNaming.makeKeyName(new Name(identity));
  const privateKey = createSigner(name, algorithm, pair);
  const publicKey = createVerifier(name, algorithm, pair);
  const certificate = await Certificate.selfSign({ privateKey, publicKey });
  await writeCertificateTo(writeCertificate, certificate);
  return certificate;
}

/** The signer for commands: a key that the router knows, or a digest. */
export async function commandSigner({ commandSign: kind, commandKey, commandCertificate }) {
  if (!commandKey) {
    return digestSigning;
  }
  return loadSigner(kind, commandKey, await readCertificate(commandCertificate));
}

async function loadSigner(kind, path, certificate) {
  const pkcs8 = await readFile(path);
  const pair = await KEY_PAIRS[kind].cryptoGenerate({ importPkcs8: [pkcs8, certificate.publicKeySpki] }, false);
  return createSigner(CertNaming.toKeyName(certificate.name), KEY_PAIRS[kind], pair);
}

/** A certificate of `issuer` for the key in another certificate. */
export async function issue(issuer, request) {
  const publicKey = await createVerifier(request, { algoList: SigningAlgorithmListFull });
  return Certificate.issue({
    issuerPrivateKey: issuer.signer.withKeyLocator(issuer.certificate.name),
    issuerId: Component.from("ndnts"),
    publicKey,
    validity: ValidityPeriod.daysFromNow(1),
  });
}

/** Reads a certificate. */
export async function readCertificate(path) {
  return Certificate.fromData(await readData(path));
}

/** Writes a certificate. */
export async function writeCertificateTo(path, certificate) {
  await writePacket(path, Encoder.encode(certificate.data));
}

/**
 * Checks packets against the given keys, and records the types and key locators of signatures. If a certificate is
 * missing, `fetch` requests it by its name. It is accepted if a known key has signed it.
 */
export class Checker {
  fetch = undefined;
  types = {};
  locators = new Set();
  #certified = [];
  #hmac;
  #acceptUnsigned;

  static async create({ certificate: paths = [], hmacKey, acceptUnsigned = false }) {
    const checker = new Checker();
    checker.#acceptUnsigned = acceptUnsigned;
    for (const path of paths) {
      await checker.#learn(await readCertificate(path));
    }
    if (hmacKey) {
      const secret = await HMAC.cryptoGenerate({ importRaw: Buffer.from(hmacKey, "hex") }, false);
      checker.#hmac = createVerifier(HMAC, secret);
    }
    return checker;
  }

  /** The library calls this for each packet; a rejected promise is a bad signature. */
  async verify(packet) {
    const { type, keyLocator } = packet.sigInfo;
    this.types[type] = (this.types[type] ?? 0) + 1;
    if (keyLocator?.name) {
      this.locators.add(uri(keyLocator.name));
    }
    await this.#verifierFor(type, keyLocator, await this.#keyOf(keyLocator)).verify(packet);
  }

  async #learn(certificate) {
    this.#certified.push(await createVerifier(certificate, { algoList: SigningAlgorithmListFull }));
  }

  async #keyOf(keyLocator) {
    const known = () => keyLocator?.name && this.#certified.find(({ name }) => name.isPrefixOf(keyLocator.name));
    if (!known() && this.fetch && keyLocator?.name) {
      const data = await this.fetch(keyLocator.name);
      await this.verify(data);
      await this.#learn(Certificate.fromData(data));
    }
    return known();
  }

  #verifierFor(type, keyLocator, key) {
    switch (type) {
      case SigType.Sha256: return digestSigning;
      case SigType.Null: return { verify: async () => this.#requireUnsignedAccepted() };
      case SigType.HmacWithSha256: return this.#hmac ?? unknownKey(keyLocator);
      default: return key ?? unknownKey(keyLocator);
    }
  }

  #requireUnsignedAccepted() {
    if (!this.#acceptUnsigned) {
      throw new Error("the packet is not signed");
    }
  }

  /** The recorded signatures, for the harness. */
  report() {
    return { signature_types: this.types, key_locators: [...this.locators].sort() };
  }
}

function unknownKey(keyLocator) {
  throw new Error(`no key for ${keyLocator?.name && uri(keyLocator.name)}`);
}
