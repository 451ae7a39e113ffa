// Keys without a modifier, which work everywhere but in fields. They can be turned off, and none of them destroys anything.

import { signal } from "@preact/signals";

type Handler = (key: string, event: KeyboardEvent) => boolean;

const handlers: Handler[] = [];

export const singleKeys = signal(typeof localStorage === "undefined" || localStorage.getItem("keys") !== "off");

export function setSingleKeys(on: boolean): void {
  singleKeys.value = on;
  if (on) localStorage.removeItem("keys");
  else localStorage.setItem("keys", "off");
}

/** Ask this handler first, until the returned function is called. */
export function onKey(handler: Handler): () => void {
  handlers.unshift(handler);
  return () => {
    handlers.splice(handlers.indexOf(handler), 1);
  };
}

export const inField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]") !== null;

export function listenForKeys(blocked: () => boolean): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || blocked()) return;
    if (inField(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if (!singleKeys.value && event.key.length === 1) return;
    // A button or a link that has focus keeps the keys that press it.
    if ((event.key === "Enter" || event.key === " ") && (event.target as HTMLElement).closest?.("button, a, summary"))
      return;
    for (const handler of [...handlers]) {
      if (handler(event.key, event)) {
        event.preventDefault();
        return;
      }
    }
  });
}
