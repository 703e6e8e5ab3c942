// Numbers for people, always with their unit.

const SI = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** 950, 12.3 k, 4.56 M */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  for (const [unit, letter] of SI) {
    if (value >= unit * 0.9995) {
      const part = value / unit;
      return `${part >= 100 ? part.toFixed(0) : part >= 10 ? part.toFixed(1) : part.toFixed(2)} ${letter}`;
    }
  }
  return value === 0 ? "0" : value < 10 && !Number.isInteger(value) ? value.toFixed(1) : value.toFixed(0);
}

/** With a unit that takes the SI letter: 12.3 kbit/s */
export function unit(value, name) {
  const text = short(value);
  return `${text}${/[TGMk]$/.test(text) || name.startsWith("/") ? "" : " "}${name}`;
}

/** [number, unit] for a tile */
export function parts(value, name) {
  const [number, letter = ""] = short(value).split(" ");
  return [number, letter + name];
}

export function octets(value) {
  if (value === null || value === undefined) return "–";
  const units = ["octets", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${index && value < 10 ? value.toFixed(2) : index && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[index]}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export const percent = (part) => (part === null || !Number.isFinite(part) ? "–" : `${Math.round(part * 100)} %`);
export const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en").replaceAll(",", "\u202f"));
export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** The kind of a face by its address, which selects color and shape. */
export function kindOf(face) {
  const scheme = face.uri.split(":")[0];
  if (scheme === "internal" || scheme === "null" || scheme === "contentstore" || scheme === "local") return "other";
  if (scheme === "unix" || scheme === "fd") return "app";
  if (scheme.startsWith("udp")) return "udp";
  if (scheme.startsWith("tcp")) return "tcp";
  if (scheme === "ether") return "ether";
  if (scheme === "memif") return "memif";
  if (scheme.startsWith("ws")) return "ws";
  return "other";
}

export const KINDS = {
  app: "application (Unix)", memif: "application (memif)", udp: "UDP", tcp: "TCP", ether: "Ethernet", ws: "WebSocket", other: "of the router",
};
