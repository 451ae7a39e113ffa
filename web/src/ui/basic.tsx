// The small parts that every page is made of. Names come in as text and go out as text nodes only.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { inWords } from "../lib/api";
import { Icon, type IconName } from "./icon";

type Children = { children?: ComponentChildren };

export function Chip({
  kind = "",
  mono,
  children,
}: Children & { kind?: "" | "warn" | "bad" | "good" | "accent"; mono?: boolean }): JSX.Element {
  return <span class={`chip ${kind} ${mono ? "mono" : ""}`}>{children}</span>;
}

export function Pill({ kind = "", children }: Children & { kind?: string }): JSX.Element {
  return <span class={`pill ${kind}`}>{children}</span>;
}

/** A long name gives way in the middle: its end tells it from its neighbours. */
export function Name({ text, href }: { text: string; href?: string }): JSX.Element {
  const label = text || "(default)";
  const long = label.length > 28;
  const cut = long ? label.length - 10 : label.length;
  const inner = long ? (
    <>
      <span>{label.slice(0, cut)}</span>
      <span>{label.slice(cut)}</span>
    </>
  ) : (
    label
  );
  const cls = long ? "name mid" : "name";
  return href === undefined ? (
    <span class={cls} title={label}>
      {inner}
    </span>
  ) : (
    <a class={cls} href={href} title={label}>
      {inner}
    </a>
  );
}

/** A number in a table: zero in grey. */
export function Num({ value, text }: { value: number; text: string }): JSX.Element {
  return <span class={value === 0 ? "zero" : ""}>{text}</span>;
}

export function Card(
  props: Children & {
    title?: ComponentChildren;
    note?: ComponentChildren;
    class?: string;
    label?: string;
    lined?: boolean;
  },
): JSX.Element {
  return (
    <section class={`card ${props.lined ? "lined" : ""} ${props.class ?? ""}`} aria-label={props.label}>
      {props.title !== undefined && (
        <header>
          <h2>{props.title}</h2>
          {typeof props.note === "string" ? <span class="muted">{props.note}</span> : props.note}
        </header>
      )}
      {props.children}
    </section>
  );
}

export function Facts({
  rows,
  tight,
}: {
  rows: [ComponentChildren, ComponentChildren][];
  tight?: boolean;
}): JSX.Element {
  return (
    <dl class={tight ? "kv tight" : "kv"}>
      {rows.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd class="row">{value}</dd>
        </>
      ))}
    </dl>
  );
}

export function Meter({ value, mini, label }: { value: number; mini?: boolean; label: string }): JSX.Element {
  const kind = value < 80 ? "" : value < 95 ? "warn" : "bad";
  return (
    <span
      class={`meter ${mini ? "mini" : "grow"} ${kind}`}
      style={{ "--v": `${value}%` }}
      role="img"
      aria-label={`${label}: ${Math.round(value)} %`}
    />
  );
}

export function Empty(props: Children & { icon?: IconName; title: string; bad?: boolean }): JSX.Element {
  return (
    <div class={`empty ${props.bad ? "bad" : ""}`} role={props.bad ? "alert" : undefined}>
      <Icon name={props.icon ?? (props.bad ? "alert" : "empty")} />
      <h3>{props.title}</h3>
      {props.children}
    </div>
  );
}

/** Why something is not shown; what the broker said stands below. */
export function Failed({ error, what }: { error: unknown; what: string }): JSX.Element {
  return (
    <Empty bad title={`${what} cannot be shown`}>
      <p>{inWords(error)}</p>
    </Empty>
  );
}

export function Skeleton({ lines = 4 }: { lines?: number }): JSX.Element {
  return (
    <div class="late" aria-hidden="true">
      {Array.from({ length: lines }, (_, at) => (
        <p key={at} class="skeleton-line">
          <span class="skeleton" style={{ "--w": `${80 - ((at * 23) % 50)}%` }} />
        </p>
      ))}
    </div>
  );
}

/** What to show of something that is loaded: itself, why it is not there, or its shape. */
export function Shown<T>(props: {
  of: { value: T | undefined; error: unknown };
  what: string;
  children: (value: T) => ComponentChildren;
}): JSX.Element {
  if (props.of.error !== undefined) return <Failed error={props.of.error} what={props.what} />;
  if (props.of.value === undefined) return <Skeleton />;
  return <>{props.children(props.of.value)}</>;
}

export function Choice<T extends string>(props: {
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
  label: string;
  fill?: boolean;
}): JSX.Element {
  return (
    <div class={props.fill ? "seg fill" : "seg"} role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

let ids = 0;
export const newId = (): string => `f${++ids}`;

export function Field(props: {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  children: (id: string) => ComponentChildren;
  class?: string;
}): JSX.Element {
  const [id] = useState(newId);
  return (
    <div class={`field ${props.class ?? ""}`}>
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.error ? (
        <p class="hint bad" role="alert">
          {props.error}
        </p>
      ) : (
        props.hint && <p class="hint">{props.hint}</p>
      )}
    </div>
  );
}

export function Input(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  mono?: boolean;
  hint?: ComponentChildren;
  error?: string | undefined;
  type?: string;
  placeholder?: string;
  autocomplete?: string;
  focus?: boolean;
  class?: string;
}): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint} error={props.error} class={props.class ?? ""}>
      {(id) => (
        <input
          id={id}
          class={`input ${props.mono ? "mono" : ""} ${props.error ? "wrong" : ""}`}
          type={props.type ?? "text"}
          value={props.value}
          placeholder={props.placeholder}
          autocomplete={props.autocomplete ?? "off"}
          autofocus={props.focus}
          spellcheck={false}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  hint?: string;
}): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint}>
      {(id) => (
        <select
          id={id}
          class="input"
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check(props: {
  label: ComponentChildren;
  checked: boolean;
  onChange: (checked: boolean) => void;
}): JSX.Element {
  return (
    <label class="option">
      <input
        type="checkbox"
        class="check"
        checked={props.checked}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  );
}

export function CopyButton({ text, what }: { text: string; what: string }): JSX.Element {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      class="btn quiet s icon"
      aria-label={done ? "Copied" : `Copy ${what}`}
      onClick={() => {
        void navigator.clipboard?.writeText(text).then(() => setDone(true));
        setTimeout(() => setDone(false), 2000);
      }}
    >
      <Icon name={done ? "check" : "copy"} small />
    </button>
  );
}

export function Callout(
  props: Children & {
    kind?: "" | "warn" | "bad";
    icon?: IconName;
    title: ComponentChildren;
    actions?: ComponentChildren;
  },
): JSX.Element {
  return (
    <div class={`callout ${props.kind ?? ""}`} role="status">
      <Icon name={props.icon ?? "info"} />
      <div class="grow">
        <p class="strong">{props.title}</p>
        {props.children && <p>{props.children}</p>}
      </div>
      {props.actions && <div class="actions">{props.actions}</div>}
    </div>
  );
}

export interface StatProps {
  label: string;
  color?: string;
  value: string;
  unit?: string;
  note?: ComponentChildren;
  kind?: string;
  spark?: ComponentChildren;
}

export function Stat(props: StatProps): JSX.Element {
  return (
    <div class="stat">
      <p class="label">
        {props.color && <i class={`c-${props.color}`} />}
        {props.label}
      </p>
      <p class="value">
        {props.value}
        {props.unit && <small>{props.unit}</small>}
      </p>
      <p class={`note ${props.kind ?? ""}`}>{props.note ?? "\u00a0"}</p>
      {props.spark}
    </div>
  );
}

export function Head(
  props: Children & { title: ComponentChildren; sub?: ComponentChildren; copy?: string },
): JSX.Element {
  return (
    <div class="head">
      <div class="grow">
        <h1 tabIndex={-1}>
          <span class="cut">{props.title}</span>
          {props.copy !== undefined && <CopyButton text={props.copy} what="the name" />}
        </h1>
        <div class="sub">{props.sub}</div>
      </div>
      {props.children && <div class="actions">{props.children}</div>}
    </div>
  );
}

/** Words with dots between them. */
export function Dots({ items }: { items: (ComponentChildren | false | undefined)[] }): JSX.Element {
  return (
    <span class="dot-sep">
      {items.filter(Boolean).map((item, at) => (
        <span key={at}>{item}</span>
      ))}
    </span>
  );
}

export function Tabs(props: {
  label: string;
  tabs: { id: string; text: string; count?: ComponentChildren; href: string }[];
  current: string;
}): JSX.Element {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <a key={tab.id} href={tab.href} aria-current={tab.id === props.current ? "page" : undefined}>
          {tab.text} {tab.count !== undefined && <b>{tab.count}</b>}
        </a>
      ))}
    </nav>
  );
}
