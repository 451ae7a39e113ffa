// Names with values of a type: arguments, headers, the settings of a policy.

import type { JSX } from "preact";
import { Icon } from "./icon";

export type Kind = "string" | "number" | "boolean" | "json";

export interface Entry {
  name: string;
  value: string;
  kind: Kind;
}

/** What is typed as a table; text that is no value of its type is said. */
export function tableOf(entries: Entry[]): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const { name, value, kind } of entries) {
    if (!name.trim()) continue;
    found[name.trim()] = parsed(name, value, kind);
  }
  return found;
}

function parsed(name: string, value: string, kind: Kind): unknown {
  if (kind === "string") return value;
  if (kind === "boolean") return value.trim() === "true";
  if (kind === "number") {
    const number = Number(value.replace(/[,_ ]/g, ""));
    if (value.trim() === "" || Number.isNaN(number)) throw new Error(`${name} is not a number: ${value}`);
    return number;
  }
  try {
    return JSON.parse(value);
  } catch {
    throw new Error(`${name} is not JSON: ${value}`);
  }
}

export function entriesOf(table: Record<string, unknown>): Entry[] {
  return Object.entries(table).map(([name, value]) => {
    if (typeof value === "string") return { name, value, kind: "string" };
    if (typeof value === "number") return { name, value: String(value), kind: "number" };
    if (typeof value === "boolean") return { name, value: String(value), kind: "boolean" };
    return { name, value: JSON.stringify(value), kind: "json" };
  });
}

export interface Known {
  name: string;
  kind: Kind;
  values?: string[];
}

export function TableEditor(props: {
  label: string;
  what: string;
  entries: Entry[];
  onChange: (entries: Entry[]) => void;
  known?: Known[];
}): JSX.Element {
  const { entries, onChange } = props;
  const set = (at: number, change: Partial<Entry>) =>
    onChange(entries.map((one, index) => (index === at ? { ...one, ...change } : one)));
  const id = `known-${props.what}`;
  return (
    <div class="field" role="group" aria-label={props.label}>
      <span class="label">{props.label}</span>
      {entries.map((one, at) => {
        const known = props.known?.find((each) => each.name === one.name);
        const options = one.kind === "boolean" ? ["true", "false"] : known?.values;
        return (
          <div key={at} class="row entry">
            <input
              class="input mono"
              aria-label={`Name of ${props.what} ${at + 1}`}
              placeholder="name"
              list={id}
              value={one.name}
              spellcheck={false}
              onInput={(event) => {
                const name = event.currentTarget.value;
                const kind = props.known?.find((each) => each.name === name)?.kind;
                set(at, kind ? { name, kind } : { name });
              }}
            />
            {options ? (
              <select
                class="input"
                aria-label={`Value of ${one.name || `${props.what} ${at + 1}`}`}
                value={one.value}
                onChange={(event) => set(at, { value: event.currentTarget.value })}
              >
                {!options.includes(one.value) && <option value={one.value}>{one.value}</option>}
                {options.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            ) : (
              <input
                class="input mono"
                aria-label={`Value of ${one.name || `${props.what} ${at + 1}`}`}
                placeholder="value"
                value={one.value}
                spellcheck={false}
                onInput={(event) => set(at, { value: event.currentTarget.value })}
              />
            )}
            <select
              class="input kind"
              aria-label={`Type of ${one.name || `${props.what} ${at + 1}`}`}
              value={one.kind}
              onChange={(event) => set(at, { kind: event.currentTarget.value as Kind })}
            >
              <option value="string">string</option>
              <option value="number">number</option>
              <option value="boolean">boolean</option>
              <option value="json">JSON</option>
            </select>
            <button
              type="button"
              class="btn quiet icon"
              aria-label={`Remove ${one.name || `${props.what} ${at + 1}`}`}
              onClick={() => onChange(entries.filter((_, index) => index !== at))}
            >
              <Icon name="x" />
            </button>
          </div>
        );
      })}
      <div>
        <button
          type="button"
          class="btn quiet s"
          onClick={() => onChange([...entries, { name: "", value: "", kind: "string" }])}
        >
          <Icon name="plus" small />
          Add {props.what}
        </button>
      </div>
      {props.known && (
        <datalist id={id}>
          {props.known.map((each) => (
            <option key={each.name} value={each.name} />
          ))}
        </datalist>
      )}
    </div>
  );
}
