// The page as a whole: who is signed in, what stands around each page, and which page the address asks for.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { signedOut, Unreachable } from "./lib/api";
import { listenForKeys, onKey } from "./lib/keys";
import { lostSince, togglePause } from "./lib/live";
import { go, place, to } from "./lib/route";
import { load, session } from "./lib/session";
import { Page } from "./pages";
import { SignIn } from "./pages/sign-in";
import { closeDialog, DialogHost, dialogOpen, showDialog } from "./ui/dialog";
import { KeysHelp } from "./ui/keys-help";
import { openPalette, Palette, paletteOpen } from "./ui/palette";
import { Shell } from "./ui/shell";
import { Toasts } from "./ui/toast";

const JUMPS: Record<string, string> = {
  o: "overview",
  q: "queues",
  e: "exchanges",
  t: "topology",
  d: "dead-letters",
  n: "nodes",
  p: "policies",
  c: "connections",
  l: "log",
};

export function App(): JSX.Element {
  const [checked, setChecked] = useState(false);
  useEffect(() => {
    const check = () =>
      load()
        .catch((error: unknown) => {
          if (error instanceof Unreachable) {
            lostSince.value ||= Date.now();
            setTimeout(check, 3_000);
          }
        })
        .then(() => setChecked(true));
    void check();
    beginKeys();
  }, []);
  if (!checked) return <div class="gate" aria-busy="true" />;
  if (session.value === null) return <SignIn again={false} />;
  return (
    <>
      <Shell>
        <Page key={place.value.parts.slice(0, 3).join("/")} />
      </Shell>
      <DialogHost />
      <Palette />
      <Toasts />
      {signedOut.value && (
        <div class="gate-over">
          <SignIn again />
        </div>
      )}
    </>
  );
}

let jumping = 0;

function beginKeys(): void {
  // A question is about the page it was asked on.
  addEventListener("hashchange", closeDialog);
  listenForKeys(() => dialogOpen() || paletteOpen() || signedOut.peek());
  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      openPalette();
    }
  });
  onKey((key) => {
    const now = Date.now();
    if (now - jumping < 1_500) {
      jumping = 0;
      const target = JUMPS[key];
      if (target) {
        go(to(target));
        return true;
      }
    }
    if (key === "g") jumping = now;
    else if (key === "/") document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
    else if (key === "?") showDialog(() => <KeysHelp />);
    else if (key === ".") togglePause();
    else if (key === "n") document.querySelector<HTMLElement>("[data-new]")?.click();
    else if (/^[1-5]$/.test(key))
      document.querySelectorAll<HTMLElement>("[data-ranges] button")[Number(key) - 1]?.click();
    else if (key === "[" || key === "]") stepTab(key === "]" ? 1 : -1);
    else return false;
    return true;
  });
}

function stepTab(by: number): void {
  const tabs = [...document.querySelectorAll<HTMLElement>(".tabs a")];
  const at = tabs.findIndex((tab) => tab.getAttribute("aria-current"));
  tabs[(at + by + tabs.length) % tabs.length]?.click();
}
