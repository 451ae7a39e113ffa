// What stands above the page: dialogs, and the question before something is destroyed. Focus goes in, and back when it closes.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { inWords } from "../lib/api";
import { updating } from "../lib/live";
import { Check, newId } from "./basic";
import { done } from "./toast";

const open = signal<(() => JSX.Element) | null>(null);

export function showDialog(make: () => JSX.Element): void {
  open.value = make;
}

export function closeDialog(): void {
  open.value = null;
}

export const dialogOpen = (): boolean => open.peek() !== null;

export function DialogHost(): JSX.Element | null {
  const make = open.value;
  return make === null ? null : make();
}

const FOCUSABLE = "button:not(:disabled), a[href], input:not(:disabled), select, textarea, [tabindex='0']";

/** Keep focus inside; Esc closes. */
export function useTrap(close: () => void) {
  const box = useRef<HTMLDivElement>(null);
  // Before it is painted: whoever types at once types into it.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const first =
      box.current?.querySelector<HTMLElement>("[data-focus]") ?? box.current?.querySelector<HTMLElement>(FOCUSABLE);
    first?.focus();
    // Focus may be lost to the page, as when a button that had it is gone.
    const onEscape = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented) close();
    };
    document.addEventListener("keydown", onEscape);
    return () => {
      document.removeEventListener("keydown", onEscape);
      before?.focus?.();
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      close();
      return;
    }
    if (event.key !== "Tab" || !box.current) return;
    const all = [...box.current.querySelectorAll<HTMLElement>(FOCUSABLE)];
    const [first, last] = [all[0], all[all.length - 1]];
    if (event.shiftKey && document.activeElement === first) {
      event.preventDefault();
      last?.focus();
    } else if (!event.shiftKey && document.activeElement === last) {
      event.preventDefault();
      first?.focus();
    }
  };
  return { box, onKeyDown };
}

export function Dialog(props: {
  title: string;
  children: ComponentChildren;
  footer: ComponentChildren;
  wide?: boolean;
  role?: "dialog" | "alertdialog";
  onSubmit?: () => void;
}): JSX.Element {
  const { box, onKeyDown } = useTrap(closeDialog);
  const [id] = useState(newId);
  return (
    <div class="scrim" onMouseDown={(event) => event.target === event.currentTarget && closeDialog()}>
      <div
        ref={box}
        class={props.wide ? "dialog wide" : "dialog"}
        role={props.role ?? "dialog"}
        aria-modal="true"
        aria-labelledby={id}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && props.onSubmit) {
            event.preventDefault();
            props.onSubmit();
          }
          onKeyDown(event);
        }}
      >
        <header>
          <h2 id={id}>{props.title}</h2>
        </header>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            props.onSubmit?.();
          }}
        >
          <div class="body">{props.children}</div>
          <footer>{props.footer}</footer>
        </form>
      </div>
    </div>
  );
}

/** A form in a dialog: it is sent, and closes if it was taken; else it says why not and keeps what was typed. */
export function FormDialog(props: {
  title: string;
  verb: string;
  children: ComponentChildren;
  send: () => Promise<unknown>;
  doneText?: string;
  wide?: boolean;
  disabled?: boolean;
  destroys?: boolean;
}): JSX.Element {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (busy || props.disabled) return;
    setBusy(true);
    setError("");
    try {
      await props.send();
      closeDialog();
      if (props.doneText) done(props.doneText);
    } catch (caught) {
      setError(inWords(caught));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={props.title}
      wide={props.wide ?? false}
      onSubmit={() => void submit()}
      footer={
        <>
          <button type="button" class="btn" onClick={closeDialog}>
            Cancel
          </button>
          <button
            type="submit"
            class={props.destroys ? "btn destroy" : "btn primary"}
            disabled={props.disabled ?? false}
            aria-busy={busy}
          >
            {props.verb}
          </button>
        </>
      }
    >
      {props.children}
      {error && (
        <p class="hint bad" role="alert">
          {error}
        </p>
      )}
    </Dialog>
  );
}

export interface Doomed {
  name: string;
  loss: string;
}

export interface Destruction {
  title: string;
  verb: string;
  what: Doomed[];
  /** What has to be typed; asked for when much is lost. */
  typed?: string | undefined;
  note?: string;
  exportFirst?: (() => Promise<unknown>) | undefined;
  action: () => Promise<unknown>;
  doneText: string;
}

const LISTED = 5;

/** Ask before something is destroyed, and say what is lost. */
export function confirmDestruction(destruction: Destruction): void {
  showDialog(() => <Confirm {...destruction} />);
}

function Confirm(props: Destruction): JSX.Element {
  const [typed, setTyped] = useState("");
  const [exporting, setExporting] = useState(false);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [id] = useState(newId);
  const sure = props.typed === undefined || typed.trim() === props.typed;
  const submit = async () => {
    if (!sure || busy) return;
    setBusy(true);
    try {
      if (exporting) await props.exportFirst?.();
      await props.action();
      closeDialog();
      done(props.doneText);
    } catch (caught) {
      setError(inWords(caught));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={props.title}
      role="alertdialog"
      onSubmit={() => void submit()}
      footer={
        <>
          <button type="button" class="btn" data-focus onClick={closeDialog}>
            Cancel
          </button>
          <button type="submit" class="btn destroy" disabled={!sure || !updating.value} aria-busy={busy}>
            {props.verb}
          </button>
        </>
      }
    >
      <dl class="kv tight">
        {props.what.slice(0, LISTED).map((one) => (
          <>
            <dt class="ink cut" title={one.name}>
              {one.name}
            </dt>
            <dd class="num">{one.loss}</dd>
          </>
        ))}
      </dl>
      {props.what.length > LISTED && <p>and {props.what.length - LISTED} more</p>}
      <p>{props.note ?? "This cannot be undone."}</p>
      {props.exportFirst && (
        <Check label="Export the messages first, as JSON lines" checked={exporting} onChange={setExporting} />
      )}
      {props.typed !== undefined && (
        <div class="field">
          <label for={id}>
            Type <b class="strong ink">{props.typed}</b> to confirm
          </label>
          <input
            id={id}
            class="input"
            value={typed}
            autocomplete="off"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </div>
      )}
      {error && (
        <p class="hint bad" role="alert">
          {error}
        </p>
      )}
    </Dialog>
  );
}
