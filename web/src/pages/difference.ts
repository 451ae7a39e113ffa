// What a file of definitions would add and change.

export interface Difference {
  section: string;
  name: string;
  kind: "added" | "changed";
  before: string;
  after: string;
}

type Thing = Record<string, unknown>;

// What tells the things of a section apart; of others it is the name, with the vhost.
const KEYS: Record<string, string[]> = {
  permissions: ["user", "vhost"],
  topic_permissions: ["user", "vhost", "exchange"],
  bindings: ["vhost", "source", "destination_type", "destination", "routing_key", "arguments"],
  parameters: ["component", "vhost", "name"],
};

const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

function named(section: string, thing: Thing): string {
  const keys = KEYS[section] ?? ["vhost", "name"];
  return keys
    .filter((key) => thing[key] !== undefined && thing[key] !== "" && text(thing[key]) !== "{}")
    .map((key) => text(thing[key]))
    .join(" · ");
}

/** The same text for the same thing, in whatever order its keys are. */
export function written(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const pairs = Object.entries(value as Thing).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${pairs.map(([key, one]) => `${JSON.stringify(key)}:${written(one)}`).join(",")}}`;
}

const things = (value: unknown): Thing[] =>
  Array.isArray(value) ? value.filter((one): one is Thing => typeof one === "object" && one !== null) : [];

export function differences(now: Thing, next: Thing): Difference[] {
  const found: Difference[] = [];
  for (const [section, list] of Object.entries(next)) {
    const known = new Map(things(now[section]).map((one) => [named(section, one), one]));
    for (const thing of things(list)) {
      const name = named(section, thing);
      const before = known.get(name);
      if (before === undefined) found.push({ section, name, kind: "added", before: "", after: written(thing) });
      else {
        // What a file does not say of a thing stays as it is.
        const both = { ...before, ...thing };
        if (written(both) !== written(before))
          found.push({ section, name, kind: "changed", before: written(before), after: written(both) });
      }
    }
  }
  return found;
}
