// Who is signed in, and what they may do. What a user may not do is not offered; the broker refuses it in any case.

import { computed, signal } from "@preact/signals";
import { ask, get, signedOut } from "./api";

export interface Permission {
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

export interface Session {
  name: string;
  tags: string[];
  vhosts: string[];
  permissions: Permission[];
  cluster_name: string;
  node: string;
  version: string;
}

export const session = signal<Session | null>(null);

export async function load(): Promise<void> {
  session.value = await get<Session>("api/session");
  signedOut.value = false;
}

export async function signIn(username: string, password: string): Promise<void> {
  await ask("POST", "api/login", { raw: new URLSearchParams({ username, password }) });
  await load();
}

export async function signOut(): Promise<void> {
  await ask("DELETE", "api/login");
  session.value = null;
}

const has = (tag: string): boolean => {
  const tags = session.value?.tags ?? [];
  return tags.includes("administrator") || tags.includes(tag);
};

export const isAdministrator = computed(() => has("administrator"));
export const isMonitor = computed(() => has("monitoring"));
export const isPolicymaker = computed(() => has("policymaker"));

export type Right = "configure" | "write" | "read";

/** Whether the user has this right to a name. A pattern that only the broker's engine understands is left to the broker. */
export function may(right: Right, vhost: string, name: string): boolean {
  const found = session.value?.permissions.find((one) => one.vhost === vhost);
  if (!found) return false;
  const pattern = found[right];
  if (pattern === "") return false;
  try {
    return new RegExp(pattern).test(name);
  } catch {
    return true;
  }
}

/** The default exchange is called by another name in permissions. */
export const mayPublish = (vhost: string, exchange: string): boolean => may("write", vhost, exchange || "amq.default");
