// What was done, and what was not. Done leaves by itself; failed stays until somebody has read it.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { inWords } from "../lib/api";
import { Icon } from "./icon";

interface Toast {
  id: number;
  text: string;
  note: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let ids = 0;
const STAYS_MS = 6_000;

function add(text: string, note: string, bad: boolean): void {
  const id = ++ids;
  toasts.value = [...toasts.value.slice(-4), { id, text, note, bad }];
  if (!bad) setTimeout(() => leave(id), STAYS_MS);
}

function leave(id: number): void {
  // It stays while it is pointed at.
  if (document.querySelector(`.toast[data-id="${id}"]:hover`)) setTimeout(() => leave(id), 1000);
  else dismiss(id);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export const done = (text: string, note = ""): void => add(text, note, false);
export const failed = (text: string, error: unknown): void => add(text, inWords(error), true);

/** Do something; say that it is done, or why it is not. Returns whether it is. */
export async function attempt(doneText: string, failedText: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
  } catch (error) {
    failed(failedText, error);
    return false;
  }
  done(doneText);
  return true;
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts">
      {toasts.value.map((toast) => (
        <div
          key={toast.id}
          data-id={toast.id}
          class={toast.bad ? "toast bad" : "toast"}
          role={toast.bad ? "alert" : "status"}
        >
          <Icon name={toast.bad ? "alert" : "check"} />
          <div class="grow">
            <p class="strong">{toast.text}</p>
            {toast.note && <p class="small muted">{toast.note}</p>}
          </div>
          <button type="button" class="btn quiet s icon" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>
            <Icon name="x" small />
          </button>
        </div>
      ))}
    </div>
  );
}
