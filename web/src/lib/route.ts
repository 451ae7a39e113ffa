// The address is the state: what is shown, of which vhost, how it is filtered and sorted. All of it stands behind the #.

import { computed, signal } from "@preact/signals";

export interface Place {
  parts: string[];
  query: Record<string, string>;
}

export function parse(hash: string): Place {
  const [where = "", rest = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = where.split("/").filter(Boolean).map(decoded);
  const query: Record<string, string> = {};
  for (const pair of rest.split("&").filter(Boolean)) {
    const at = pair.indexOf("=");
    query[decoded(at < 0 ? pair : pair.slice(0, at))] = at < 0 ? "" : decoded(pair.slice(at + 1));
  }
  return { parts, query };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** An address: the default exchange, whose name is empty, is written as it is in the API's paths. */
export function written(parts: string[], query: Record<string, string | undefined> = {}): string {
  const found = Object.entries(query).filter(
    (pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "",
  );
  const rest = found.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
  return `#/${parts.map((part) => encodeURIComponent(part || "amq.default")).join("/")}${rest ? `?${rest}` : ""}`;
}

export const place = signal<Place>(parse(typeof location === "undefined" ? "" : location.hash));

/** The vhost that lists show; none for all. */
export const scope = computed(() => place.value.query.vhost);

/** A link to another page, which keeps the vhost. */
export function to(...parts: string[]): string {
  return written(parts, { vhost: scope.value });
}

export function toWith(parts: string[], query: Record<string, string | undefined>): string {
  return written(parts, { vhost: scope.value, ...query });
}

export function go(address: string): void {
  location.hash = address;
}

/** Change what the address says of this page; what is typed does not fill the history. */
export function setQuery(change: Record<string, string | undefined>, replace = true): void {
  const { parts, query } = place.value;
  const address = written(parts, { ...query, ...change });
  if (!replace) {
    go(address);
    return;
  }
  history.replaceState(null, "", address);
  place.value = parse(address);
}

export function listen(): void {
  addEventListener("hashchange", () => {
    place.value = parse(location.hash);
  });
}
