// What will this change? Answered by the broker's own patterns before anything is saved.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { inWords, path, post, put, remove } from "../lib/api";
import { plural, shown, whole } from "../lib/format";
import { place, scope, setQuery, toWith } from "../lib/route";
import { useLocalRows } from "../lib/rows";
import { isAdministrator, isPolicymaker, session } from "../lib/session";
import type { Policy } from "../lib/types";
import { useDraft, useSettled } from "../lib/use";
import { Chip, Choice, Dots, Empty, Head, Input, Name, Select } from "../ui/basic";
import { confirmDestruction } from "../ui/dialog";
import { askedOf, type Column, Grid } from "../ui/grid";
import { Icon } from "../ui/icon";
import { type Entry, entriesOf, type Known, TableEditor, tableOf } from "../ui/table-editor";
import { done } from "../ui/toast";
import { exchangeHref } from "./lists";

const KEYS: Known[] = [
  { name: "max-length", kind: "number" },
  { name: "max-length-bytes", kind: "number" },
  { name: "overflow", kind: "string", values: ["drop-head", "reject-publish", "reject-publish-dlx"] },
  { name: "message-ttl", kind: "number" },
  { name: "expires", kind: "number" },
  { name: "delivery-limit", kind: "number" },
  { name: "dead-letter-exchange", kind: "string" },
  { name: "dead-letter-routing-key", kind: "string" },
  { name: "alternate-exchange", kind: "string" },
  { name: "consumer-timeout", kind: "number" },
];
const APPLY: [string, string][] = [
  ["queues", "Queues"],
  ["exchanges", "Exchanges"],
  ["all", "Queues and exchanges"],
  ["classic_queues", "Classic queues"],
  ["quorum_queues", "Quorum queues"],
];

type Kind = "policies" | "operator-policies";

interface Draft {
  name: string;
  pattern: string;
  apply: string;
  priority: string;
  entries: Entry[];
}

const EMPTY: Draft = {
  name: "",
  pattern: "",
  apply: "queues",
  priority: "0",
  entries: [{ name: "", value: "", kind: "number" }],
};

const columns = (kind: Kind): Column<Policy>[] => [
  {
    key: "name",
    title: "Policy",
    sort: "name",
    phone: "",
    show: (one) => (
      <Name
        text={one.name}
        href={toWith(["policies"], {
          kind: kind === "policies" ? undefined : "operator",
          edit: one.name,
          in: one.vhost,
        })}
      />
    ),
  },
  { key: "vhost", title: "vhost", width: "10%", sort: "vhost", show: (one) => one.vhost },
  {
    key: "pattern",
    title: "Pattern",
    width: "22%",
    sort: "pattern",
    phone: "l2",
    show: (one) => <code title={one.pattern}>{one.pattern || "(all)"}</code>,
  },
  {
    key: "apply",
    title: "Applies to",
    width: "12%",
    sort: "apply-to",
    show: (one) => <span class="soft">{one["apply-to"].replace("_", " ")}</span>,
  },
  {
    key: "priority",
    title: "Priority",
    width: "80px",
    num: true,
    sort: "priority",
    phone: "",
    show: (one) => whole(one.priority),
  },
  {
    key: "definition",
    title: "Definition",
    width: "30%",
    show: (one) => (
      <span class="row gap1">
        {Object.entries(one.definition).map(([name, value]) => (
          <Chip key={name}>
            {name} {shown(value)}
          </Chip>
        ))}
      </span>
    ),
  },
];

export function Policies(): JSX.Element {
  const { query } = place.value;
  const kind: Kind = query.kind === "operator" ? "operator-policies" : "policies";
  const asked = askedOf("name");
  const rows = useLocalRows<Policy>(
    scope.value === undefined ? path(kind) : path(kind, scope.value),
    asked,
    (one) => one.name,
    (one, sort) => one[sort as keyof Policy] as string | number,
  );
  const mayEdit = kind === "policies" ? isPolicymaker.value : isAdministrator.value;
  const adding = query.add === "1";
  const all = Array.from({ length: rows.filtered }, (_, at) => rows.row(at));
  const edited = all.find((one) => one?.name === query.edit && one?.vhost === query.in);
  const vhost = query.in ?? scope.value ?? session.value?.permissions[0]?.vhost ?? "/";
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title="Policies"
        sub={
          <Dots
            items={[
              `${whole(rows.total)}${scope.value === undefined ? "" : ` in ${scope.value}`}`,
              "of those that match, the highest priority wins alone",
            ]}
          />
        }
      >
        <Choice
          label="Whose"
          value={kind}
          onChange={(value) =>
            setQuery({ kind: value === "policies" ? undefined : "operator", add: undefined, edit: undefined })
          }
          options={[
            ["policies", "Users'"],
            ["operator-policies", "Operator's"],
          ]}
        />
        {mayEdit && (
          <button
            type="button"
            class="btn primary"
            data-new
            onClick={() => setQuery({ add: "1", edit: undefined, in: undefined }, false)}
          >
            <Icon name="plus" />
            New policy <span class="kbd hide-s">N</span>
          </button>
        )}
      </Head>
      {mayEdit && (adding || edited) && (
        <Editor
          key={`${kind}/${vhost}/${query.edit}`}
          kind={kind}
          vhost={vhost}
          policy={adding ? undefined : edited}
          reload={rows.reload}
        />
      )}
      <Grid
        id={kind}
        label="Policies"
        rows={rows}
        asked={asked}
        columns={columns(kind)}
        keyOf={(one) => `${one.vhost}\n${one.name}`}
        nameOf={(one) => one.name}
        empty={
          <Empty icon="policy" title="There are no policies">
            <p>A policy sets limits, times and dead-letter exchanges for all queues whose names match.</p>
          </Empty>
        }
      />
    </main>
  );
}

interface Item {
  name: string;
  kind: "queue" | "exchange";
  type: string;
  matches: boolean;
  wins: boolean;
  now: { name: string; priority: number } | null;
  then: { name: string; priority: number } | null;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  changes: boolean;
  messages_ready?: number;
}

interface Preview {
  total: number;
  matched: number;
  changed: number;
  items: Item[];
}

function Editor({
  kind,
  vhost: initial,
  policy,
  reload,
}: {
  kind: Kind;
  vhost: string;
  policy: Policy | undefined;
  reload: () => void;
}): JSX.Element {
  const first: Draft = policy
    ? {
        name: policy.name,
        pattern: policy.pattern,
        apply: policy["apply-to"],
        priority: String(policy.priority),
        entries: entriesOf(policy.definition),
      }
    : EMPTY;
  const [draft, setDraft, clear] = useDraft<Draft>(`policy:${kind}:${initial}:${policy?.name ?? ""}`, first);
  const [vhost, setVhost] = useState(initial);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState("");
  const [all, setAll] = useState(false);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const body = () => ({
    pattern: draft.pattern,
    "apply-to": draft.apply,
    priority: Number(draft.priority.replace(/,/g, "")) || 0,
    definition: tableOf(draft.entries),
  });
  const settled = useSettled(JSON.stringify([draft, vhost]), 300);
  useEffect(() => {
    let current = true;
    const ask = async () => {
      try {
        const asked = body();
        if (!Object.keys(asked.definition).length) {
          setPreview(null);
          setError("");
          return;
        }
        const found = await post<Preview>(path(kind, vhost, draft.name || "new", "preview"), asked);
        if (!current) return;
        setPreview(found);
        setError("");
      } catch (caught) {
        if (current) setError(inWords(caught).replace("Validation failed\n\n", ""));
      }
    };
    void ask();
    return () => {
      current = false;
    };
  }, [settled]);
  const close = () => {
    clear();
    setQuery({ add: undefined, edit: undefined, in: undefined });
  };
  const save = async () => {
    try {
      await put(path(kind, vhost, draft.name), body());
      done(`${draft.name} saved`, preview ? `${plural(preview.changed, "object")} changed` : "");
      close();
      reload();
    } catch (caught) {
      setError(inWords(caught).replace("Validation failed\n\n", ""));
    }
  };
  const drop = () =>
    confirmDestruction({
      title: `Delete the policy ${draft.name}?`,
      verb: "Delete policy",
      what: [{ name: draft.name, loss: draft.pattern }],
      note: "What it has set no longer holds; another policy that matches takes its place.",
      action: async () => {
        await remove(path(kind, vhost, draft.name));
        close();
        reload();
      },
      doneText: `${draft.name} deleted`,
    });
  const vhosts = session.value?.vhosts ?? [];
  return (
    <div class="grid gap-below">
      <section class="card c5 lined">
        <header>
          <h2>{policy ? policy.name : "New policy"}</h2>
          {JSON.stringify(draft) !== JSON.stringify(first) && <Chip kind="warn">not saved</Chip>}
        </header>
        <form
          class="pad form"
          onSubmit={(event) => {
            event.preventDefault();
            void save();
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              event.preventDefault();
              void save();
            }
          }}
        >
          {!policy && <Input label="Name" value={draft.name} onInput={(name) => set({ name })} focus />}
          {!policy && vhosts.length > 1 && (
            <Select
              label="Virtual host"
              value={vhost}
              onChange={setVhost}
              options={vhosts.map((name) => [name, name])}
            />
          )}
          <Input
            label="Pattern"
            mono
            value={draft.pattern}
            onInput={(pattern) => set({ pattern })}
            hint="Regular expression, found anywhere in the name"
            error={error || undefined}
          />
          <div class="row start">
            <div class="grow">
              <Select label="Applies to" value={draft.apply} onChange={(apply) => set({ apply })} options={APPLY} />
            </div>
            <Input
              label="Priority"
              class="w-priority"
              value={draft.priority}
              onInput={(priority) => set({ priority })}
            />
          </div>
          <TableEditor
            label="Definition"
            what="a key"
            entries={draft.entries}
            onChange={(entries) => set({ entries })}
            known={KEYS}
          />
          <div class="row">
            {policy && (
              <button type="button" class="btn quiet danger" onClick={drop}>
                <Icon name="trash" />
                Delete…
              </button>
            )}
            <span class="grow" />
            <button type="button" class="btn" onClick={close}>
              Cancel
            </button>
            <button type="submit" class="btn primary" disabled={!draft.name}>
              Save <span class="kbd hide-s">Ctrl ↵</span>
            </button>
          </div>
        </form>
      </section>
      <section class="card c7 clip" aria-live="polite" aria-label="What it would change">
        <header>
          <h2>{preview ? `Matches ${whole(preview.matched)} of ${whole(preview.total)}` : "What it would change"}</h2>
          {preview && (
            <Choice
              label="Which matches"
              value={all ? "all" : "changed"}
              onChange={(value) => setAll(value === "all")}
              options={[
                ["changed", `Changed ${whole(preview.changed)}`],
                ["all", `All ${whole(preview.items.length)}`],
              ]}
            />
          )}
        </header>
        {preview ? (
          <ul class="answer preview">
            {preview.items
              .filter((one) => all || one.changes)
              .map((one) => (
                <PreviewRow key={`${one.kind}/${one.name}`} item={one} vhost={vhost} />
              ))}
          </ul>
        ) : (
          <Empty icon="policy" title="Nothing is changed yet">
            <p>With a pattern and a key, what would match and change is shown here, before anything is saved.</p>
          </Empty>
        )}
        {preview && !preview.changed && !all && <p class="pad muted">Nothing would change.</p>}
        <p class="tfoot">A queue declared later gets the policy too if its name matches.</p>
      </section>
    </div>
  );
}

function PreviewRow({ item, vhost }: { item: Item; vhost: string }): JSX.Element {
  const names = [...new Set([...Object.keys(item.before), ...Object.keys(item.after)])].filter(
    (name) => JSON.stringify(item.before[name]) !== JSON.stringify(item.after[name]),
  );
  const href = item.kind === "queue" ? toWith(["queues", vhost, item.name], {}) : exchangeHref(vhost, item.name);
  const lost = names.filter((name) => !(name in item.after));
  return (
    <li>
      <div>
        <a class="strong cut" href={href}>
          {item.name || "(default)"}
        </a>
        <div class="small muted">{item.kind === "queue" ? item.type : `${item.type} exchange`}</div>
      </div>
      <div>
        {item.matches ? (
          <Chip kind={item.wins ? "good" : ""}>{item.wins ? "wins" : "loses"}</Chip>
        ) : (
          <Chip kind="warn">no longer matches</Chip>
        )}
        <div class="small muted">
          {item.wins || !item.then
            ? item.now
              ? `replaces ${item.now.name}, priority ${item.now.priority}`
              : "no policy now"
            : `${item.then.name} has priority ${item.then.priority}`}
        </div>
      </div>
      <div class="small">
        {names.map((name) => (
          <div key={name} class="row gap1">
            <code class="soft">{name}</code>
            <span class="muted">{name in item.before ? shown(item.before[name]) : "–"}</span>
            <span class="muted">→</span>
            <span class={name in item.after ? "good strong" : "bad strong"}>
              {name in item.after ? shown(item.after[name]) : "unset"}
            </span>
          </div>
        ))}
        {!names.length && <div class="muted">nothing changes</div>}
        {lost.length > 0 && <div class="warn">loses {lost.join(", ")}: policies do not add up</div>}
      </div>
    </li>
  );
}
