// Declaring queues and exchanges, and binding them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangePart, path, post, put } from "../lib/api";
import { session } from "../lib/session";
import { useDraft } from "../lib/use";
import { Check, Choice, Input, Select } from "../ui/basic";
import { FormDialog } from "../ui/dialog";
import { type Entry, type Known, TableEditor, tableOf } from "../ui/table-editor";

const QUEUE_ARGUMENTS: Known[] = [
  { name: "x-message-ttl", kind: "number" },
  { name: "x-expires", kind: "number" },
  { name: "x-max-length", kind: "number" },
  { name: "x-max-length-bytes", kind: "number" },
  { name: "x-overflow", kind: "string", values: ["drop-head", "reject-publish", "reject-publish-dlx"] },
  { name: "x-dead-letter-exchange", kind: "string" },
  { name: "x-dead-letter-routing-key", kind: "string" },
  { name: "x-max-priority", kind: "number" },
  { name: "x-single-active-consumer", kind: "boolean" },
  { name: "x-delivery-limit", kind: "number" },
  { name: "x-consumer-timeout", kind: "number" },
  { name: "x-message-deduplication", kind: "boolean" },
];
const EXCHANGE_ARGUMENTS: Known[] = [
  { name: "alternate-exchange", kind: "string" },
  { name: "x-delayed-type", kind: "string", values: ["direct", "topic", "fanout", "headers"] },
  { name: "hash-header", kind: "string" },
  { name: "hash-property", kind: "string" },
  { name: "x-cache-size", kind: "number" },
  { name: "x-cache-ttl", kind: "number" },
];
const EXCHANGE_TYPES = [
  "direct",
  "topic",
  "fanout",
  "headers",
  "x-consistent-hash",
  "x-delayed-message",
  "x-random",
  "x-recent-history",
  "x-message-deduplication",
];
const HEADERS: Known[] = [{ name: "x-match", kind: "string", values: ["all", "any", "all-with-x", "any-with-x"] }];

function VhostChoice({
  vhost,
  onChange,
  fixed,
}: {
  vhost: string;
  onChange: (vhost: string) => void;
  fixed: boolean;
}): JSX.Element | null {
  const vhosts = session.value?.permissions.map((one) => one.vhost) ?? [];
  if (fixed || vhosts.length < 2) return null;
  return <Select label="Virtual host" value={vhost} onChange={onChange} options={vhosts.map((name) => [name, name])} />;
}

const firstVhost = (): string => session.value?.permissions[0]?.vhost ?? "/";

export function DeclareQueue({ vhost: fixed }: { vhost: string | undefined }): JSX.Element {
  const [draft, setDraft, clear] = useDraft("queue", {
    name: "",
    type: "classic",
    durable: true,
    auto_delete: false,
    entries: [] as Entry[],
  });
  const [vhost, setVhost] = useState(fixed ?? firstVhost());
  const send = async () => {
    await put(path("queues", vhost, draft.name), {
      durable: draft.durable,
      auto_delete: draft.auto_delete,
      arguments: { ...tableOf(draft.entries), "x-queue-type": draft.type },
    });
    clear();
  };
  return (
    <FormDialog
      title="Declare queue"
      verb="Declare queue"
      wide
      send={send}
      disabled={!draft.name}
      doneText={`${draft.name} declared`}
    >
      <VhostChoice vhost={vhost} onChange={setVhost} fixed={fixed !== undefined} />
      <Input label="Name" value={draft.name} onInput={(name) => setDraft({ ...draft, name })} focus />
      <Choice
        label="Type"
        value={draft.type}
        onChange={(type) =>
          setDraft({ ...draft, type, ...(type === "quorum" ? { durable: true, auto_delete: false } : {}) })
        }
        options={[
          ["classic", "Classic"],
          ["quorum", "Quorum"],
        ]}
      />
      {draft.type === "classic" && (
        <div class="row wrap gap4">
          <Check label="Durable" checked={draft.durable} onChange={(durable) => setDraft({ ...draft, durable })} />
          <Check
            label="Deleted with its last consumer"
            checked={draft.auto_delete}
            onChange={(auto_delete) => setDraft({ ...draft, auto_delete })}
          />
        </div>
      )}
      <TableEditor
        label="Arguments"
        what="an argument"
        entries={draft.entries}
        onChange={(entries) => setDraft({ ...draft, entries })}
        known={QUEUE_ARGUMENTS}
      />
    </FormDialog>
  );
}

export function DeclareExchange({ vhost: fixed }: { vhost: string | undefined }): JSX.Element {
  const [draft, setDraft, clear] = useDraft("exchange", {
    name: "",
    type: "topic",
    durable: true,
    auto_delete: false,
    internal: false,
    entries: [] as Entry[],
  });
  const [vhost, setVhost] = useState(fixed ?? firstVhost());
  const send = async () => {
    const { name, entries, ...facts } = draft;
    await put(path("exchanges", vhost, name), { ...facts, arguments: tableOf(entries) });
    clear();
  };
  return (
    <FormDialog
      title="Declare exchange"
      verb="Declare exchange"
      wide
      send={send}
      disabled={!draft.name}
      doneText={`${draft.name} declared`}
    >
      <VhostChoice vhost={vhost} onChange={setVhost} fixed={fixed !== undefined} />
      <Input label="Name" value={draft.name} onInput={(name) => setDraft({ ...draft, name })} focus />
      <Select
        label="Type"
        value={draft.type}
        onChange={(type) => setDraft({ ...draft, type })}
        options={EXCHANGE_TYPES.map((type) => [type, type])}
      />
      <div class="row wrap gap4">
        <Check label="Durable" checked={draft.durable} onChange={(durable) => setDraft({ ...draft, durable })} />
        <Check
          label="Deleted with its last binding"
          checked={draft.auto_delete}
          onChange={(auto_delete) => setDraft({ ...draft, auto_delete })}
        />
        <Check label="Internal" checked={draft.internal} onChange={(internal) => setDraft({ ...draft, internal })} />
      </div>
      <TableEditor
        label="Arguments"
        what="an argument"
        entries={draft.entries}
        onChange={(entries) => setDraft({ ...draft, entries })}
        known={EXCHANGE_ARGUMENTS}
      />
    </FormDialog>
  );
}

/** A binding: what is known already stands in the form, and cannot be changed. */
export function Bind(props: {
  vhost: string;
  source?: string;
  destination?: string;
  kind?: "queue" | "exchange";
  then?: () => void;
}): JSX.Element {
  const [source, setSource] = useState(props.source ?? "");
  const [destination, setDestination] = useState(props.destination ?? "");
  const [kind, setKind] = useState<"queue" | "exchange">(props.kind ?? "queue");
  const [key, setKey] = useState("");
  const [entries, setEntries] = useState<Entry[]>([]);
  const send = async () => {
    await post(
      path("bindings", props.vhost, "e", exchangePart(source), kind === "queue" ? "q" : "e", exchangePart(destination)),
      { routing_key: key, arguments: tableOf(entries) },
    );
    props.then?.();
  };
  return (
    <FormDialog
      title="Bind"
      verb="Bind"
      wide
      send={send}
      disabled={!source || !destination}
      doneText={`${destination} is bound to ${source}`}
    >
      {props.source === undefined && <Input label="From exchange" value={source} onInput={setSource} focus />}
      {props.destination === undefined && (
        <>
          <Choice
            label="To"
            value={kind}
            onChange={setKind}
            options={[
              ["queue", "To a queue"],
              ["exchange", "To an exchange"],
            ]}
          />
          <Input label={kind === "queue" ? "Queue" : "Exchange"} value={destination} onInput={setDestination} focus />
        </>
      )}
      <Input label="Routing key" value={key} onInput={setKey} mono />
      <TableEditor label="Arguments" what="an argument" entries={entries} onChange={setEntries} known={HEADERS} />
    </FormDialog>
  );
}
