// The broker's HTTP API: one function that asks, and errors that say what did not happen, and why.

import { signal } from "@preact/signals";

/** What a request came to that was refused; `reason` is the broker's text. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
  ) {
    super(reason);
  }
}

/** The broker could not be reached. */
export class Unreachable extends Error {
  constructor() {
    super("The broker does not answer.");
  }
}

/** Becomes true when a login that was good no longer is. */
export const signedOut = signal(false);

const NOT_LOGGED_IN = new Set(["Login failed", "Not_Authorized"]);

/** Parts of a path, each quoted whole: names may have slashes. The default exchange has a name in paths. */
export function path(...parts: string[]): string {
  return `api/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export const exchangePart = (name: string): string => name || "amq.default";

export type Query = Record<string, string | number | boolean | undefined>;

export function withQuery(address: string, query: Query): string {
  const found = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  if (!found.length) return address;
  return `${address}?${found.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}

export interface Asking {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A body that is not JSON. */
  raw?: BodyInit;
}

export async function ask(method: string, address: string, asking: Asking = {}): Promise<Response> {
  // The header keeps other sites from using the cookie, and the browser from asking for a password itself.
  const headers: Record<string, string> = { "X-Leveret-Page": "1", ...asking.headers };
  let body: BodyInit | null = asking.raw ?? null;
  if (asking.body !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(asking.body);
  }
  let response: Response;
  try {
    response = await fetch(address, {
      method,
      headers,
      body,
      credentials: "same-origin",
      signal: asking.signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response: Response): Promise<Refused> {
  const text = await response.text();
  let reason = text || response.statusText;
  try {
    const found = JSON.parse(text) as { reason?: unknown };
    if (typeof found.reason === "string") reason = found.reason;
  } catch {
    // Not the broker's own answer, but a proxy's: its text is shown as it is.
  }
  if (response.status === 401 && NOT_LOGGED_IN.has(reason)) signedOut.value = true;
  return new Refused(response.status, reason);
}

export async function get<T>(address: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const response = await ask("GET", withQuery(address, query), signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function post<T>(address: string, body: unknown): Promise<T> {
  const response = await ask("POST", address, { body });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export async function put(address: string, body: unknown = {}): Promise<void> {
  await ask("PUT", address, { body });
}

export async function remove(address: string, headers: Record<string, string> = {}): Promise<void> {
  await ask("DELETE", address, { headers });
}

/** An error as the page says it. */
export function inWords(error: unknown): string {
  if (error instanceof Refused) {
    if (error.status === 404) return `It is not there: ${error.reason}`;
    if (error.status === 413) return "It is too large for the broker.";
    return error.reason;
  }
  return error instanceof Error ? error.message : String(error);
}
