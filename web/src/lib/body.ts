// What the octets of a body may be: JSON, text, MessagePack; and hex for whatever else.

export function octetsOf(payload: string, encoding: "string" | "base64"): Uint8Array {
  if (encoding === "string") return new TextEncoder().encode(payload);
  const text = atob(payload);
  const octets = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) octets[at] = text.charCodeAt(at);
  return octets;
}

/** The text of octets, if they are one. */
export function textOf(octets: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    return null;
  }
}

export type Token = "p" | "k" | "s" | "n" | "w" | "";

/** A part of a line, and what it is: punctuation, key, string, number, word. */
export interface Part {
  kind: Token;
  text: string;
}

/** JSON as indented lines; numbers as they are written, so that large ones keep all their digits. Null if it is none. */
export function jsonLines(text: string): Part[][] | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const lines: Part[][] = [[]];
  let depth = 0;
  const add = (kind: Token, part: string) => lines[lines.length - 1]?.push({ kind, text: part });
  const begin = () => lines.push([{ kind: "", text: "  ".repeat(depth) }]);
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g) ?? [];
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      add("p", token);
      if (next === "}" || next === "]") return;
      depth++;
      begin();
    } else if (token === "}" || token === "]") {
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") {
        depth--;
        begin();
      }
      add("p", token);
    } else if (token === ",") {
      add("p", ",");
      begin();
    } else if (token === ":") add("p", ": ");
    else if (token.startsWith('"')) add(next === ":" ? "k" : "s", token);
    else add(/^[tfn]/.test(token) ? "w" : "n", token);
  });
  return lines;
}

/** Sixteen octets a line: where, in hex, as text. */
export function hexLines(octets: Uint8Array): Part[][] {
  const lines: Part[][] = [];
  for (let at = 0; at < octets.length; at += 16) {
    const row = [...octets.subarray(at, at + 16)];
    const hex = row.map((octet) => octet.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((octet) => (octet > 31 && octet < 127 ? String.fromCharCode(octet) : "·")).join("");
    lines.push([
      { kind: "p", text: at.toString(16).padStart(6, "0") },
      { kind: "", text: `  ${hex.padEnd(47)}  ` },
      { kind: "s", text },
    ]);
  }
  return lines;
}

const DEPTH_MAX = 64;

/** A MessagePack value as JSON text; null if it is none, or not all of the octets. */
export function messagePack(octets: Uint8Array): string | null {
  const reader = new Reader(octets);
  try {
    const text = reader.value(0);
    return reader.at === octets.length && octets.length ? text : null;
  } catch {
    return null;
  }
}

class Reader {
  at = 0;
  private readonly view: DataView;

  constructor(private readonly octets: Uint8Array) {
    this.view = new DataView(octets.buffer, octets.byteOffset, octets.byteLength);
  }

  value(depth: number): string {
    if (depth > DEPTH_MAX) throw new RangeError("too deep");
    const tag = this.unsigned(1);
    if (tag < 0x80) return String(tag);
    if (tag < 0x90) return this.map(tag & 15, depth);
    if (tag < 0xa0) return this.array(tag & 15, depth);
    if (tag < 0xc0) return this.text(tag & 31);
    if (tag >= 0xe0) return String(tag - 256);
    switch (tag) {
      case 0xc0:
        return "null";
      case 0xc2:
        return "false";
      case 0xc3:
        return "true";
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.binary(this.unsigned(1 << (tag - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.extension(this.unsigned(1 << (tag - 0xc7)));
      case 0xca:
        return String(this.view.getFloat32(this.skip(4)));
      case 0xcb:
        return String(this.view.getFloat64(this.skip(8)));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return String(this.unsigned(1 << (tag - 0xcc)));
      case 0xcf:
        return String(this.view.getBigUint64(this.skip(8)));
      case 0xd0:
        return String(this.view.getInt8(this.skip(1)));
      case 0xd1:
        return String(this.view.getInt16(this.skip(2)));
      case 0xd2:
        return String(this.view.getInt32(this.skip(4)));
      case 0xd3:
        return String(this.view.getBigInt64(this.skip(8)));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.extension(1 << (tag - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.text(this.unsigned(1 << (tag - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.array(this.unsigned(tag === 0xdc ? 2 : 4), depth);
      case 0xde:
      case 0xdf:
        return this.map(this.unsigned(tag === 0xde ? 2 : 4), depth);
      default:
        throw new RangeError("no value begins so");
    }
  }

  private skip(count: number): number {
    const from = this.at;
    this.at += count;
    if (this.at > this.octets.length) throw new RangeError("it ends too soon");
    return from;
  }

  private unsigned(size: number): number {
    const from = this.skip(size);
    if (size === 1) return this.view.getUint8(from);
    return size === 2 ? this.view.getUint16(from) : this.view.getUint32(from);
  }

  private take(count: number): Uint8Array {
    const from = this.skip(count);
    return this.octets.subarray(from, from + count);
  }

  private text(count: number): string {
    const found = textOf(this.take(count));
    if (found === null) throw new RangeError("no text");
    return JSON.stringify(found);
  }

  private binary(count: number): string {
    return JSON.stringify(`base64:${btoa(String.fromCharCode(...this.take(count)))}`);
  }

  private extension(count: number): string {
    const kind = this.view.getInt8(this.skip(1));
    return `{"extension":${kind},"data":${this.binary(count)}}`;
  }

  private array(count: number, depth: number): string {
    return `[${Array.from({ length: count }, () => this.value(depth + 1)).join(",")}]`;
  }

  private map(count: number, depth: number): string {
    const pairs = Array.from({ length: count }, () => {
      const key = this.value(depth + 1);
      return `${key.startsWith('"') ? key : JSON.stringify(key)}:${this.value(depth + 1)}`;
    });
    return `{${pairs.join(",")}}`;
  }
}
