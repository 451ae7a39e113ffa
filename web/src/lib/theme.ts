// Light, dark, or as the system has it.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const kept = typeof localStorage === "undefined" ? null : localStorage.getItem("theme");
export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "system");

export function follow(): void {
  effect(() => {
    if (theme.value === "system") {
      document.documentElement.removeAttribute("data-theme");
      localStorage.removeItem("theme");
    } else {
      document.documentElement.dataset.theme = theme.value;
      localStorage.setItem("theme", theme.value);
    }
  });
}

export function next(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme.value = theme.value === "system" ? (dark ? "light" : "dark") : theme.value === "dark" ? "light" : "dark";
}
