// NFD management as NDNts applications use it: commands, datasets, and the answer of a router without a route.
import { consume } from "@ndn/endpoint";
import {
  ControlParameters, CsInfo, FaceStatus, GeneralStatus, invoke, invokeGeneric, list, PrefixAnn, RibEntry,
  ControlCommandOptions, StrategyChoice,
} from "@ndn/nfdmgmt";
import { Interest, Nack, Name } from "@ndn/packet";

import { emit, managementPrefix, uri } from "./session.mjs";

const DATASETS = {
  "status/general": [GeneralStatus, ({ nfdVersion, nFibEntries }) => ({ version: nfdVersion, fib: nFibEntries })],
  "faces/list": [FaceStatus, ({ faceId, uri }) => ({ id: faceId, uri })],
  "rib/list": [RibEntry, ({ name, route }) => ({ name: uri(name), faces: route.map(({ faceId }) => faceId) })],
  "strategy-choice/list": [StrategyChoice, ({ name, strategy }) => ({ name: uri(name), strategy: uri(strategy) })],
  "cs/info": [CsInfo, ({ capacity, nCsEntries }) => ({ capacity: Number(capacity), entries: Number(nCsEntries) })],
};

/** One signed command; `parameters` are the library's control parameters. */
export async function command(face, verb, parameters, signer) {
  const response = await invoke(verb, parameters, { prefix: managementPrefix(face), signer });
  emitResponse(response);
}

/** rib/announce: a prefix announcement object in ApplicationParameters. */
export async function announce(face, { name, expirationPeriod }, identity, signer) {
  const announcement = await PrefixAnn.build({
    announced: name, expirationPeriod: Number(expirationPeriod), signer: identity.signer,
  });
  const response = await invokeGeneric("rib/announce", announcement.data, {
    prefix: managementPrefix(face), signer, formatCommand: ControlCommandOptions.formatCommandAppParams,
  });
  emitResponse(response);
}

function emitResponse(response) {
  const { statusCode: status, statusText: text } = response;
  const body = response.body.length > 0 ? ControlParameters.decodeFromResponseBody(response) : {};
  emit("response", { status, text, face: body.faceId, cost: body.cost, origin: body.origin });
}

/** A status dataset, all segments of it. */
export async function dataset(face, which) {
  const [model, describe] = DATASETS[which];
  const items = await list(model, { prefix: managementPrefix(face) });
  emit("dataset", { name: which, entries: items.map(describe) });
}

/** Requests a name without a producer, and reports the router's answer. The library itself drops Nacks. */
export async function noRoute(face, name) {
  const answered = new Promise((resolve) => {
    face.fw.addEventListener("pktrx", ({ packet: { l3 } }) => {
      if (l3 instanceof Nack && l3.interest.name.equals(name)) {
        resolve({ event: "nack", reason: l3.reason });
      }
    });
  });
  const interest = new Interest(new Name(name), Interest.Lifetime(3000));
  const timedOut = consume(interest).then(() => ({ event: "answered" }), () => ({ event: "timeout" }));
  const { event, ...fields } = await Promise.race([answered, timedOut]);
  emit(event, fields);
}
