// Publishing one message with properties and headers, or a file of them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangePart, inWords, path, post } from "../lib/api";
import { plural } from "../lib/format";
import { useDraft } from "../lib/use";
import { Card, Field, Input, Select } from "../ui/basic";
import { Icon } from "../ui/icon";
import { type Entry, TableEditor, tableOf } from "../ui/table-editor";
import { done, failed } from "../ui/toast";
import { parseLines, publishAll } from "./export";

const PROPERTIES = [
  "content_type",
  "content_encoding",
  "priority",
  "correlation_id",
  "reply_to",
  "expiration",
  "message_id",
  "type",
  "app_id",
].map((name) => ({ name, kind: name === "priority" ? ("number" as const) : ("string" as const) }));

/** To an exchange with a key; into a queue, with its name as the key that cannot be changed. */
export function Publish({
  vhost,
  exchange,
  queue,
  then,
}: {
  vhost: string;
  exchange: string;
  queue?: string;
  then?: () => void;
}): JSX.Element {
  const [draft, setDraft] = useDraft(`publish:${vhost}/${exchange}/${queue ?? ""}`, {
    key: "",
    mode: "2",
    payload: "",
    encoding: "string",
    headers: [] as Entry[],
    properties: [] as Entry[],
  });
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setBusy(true);
    setError("");
    try {
      const headers = tableOf(draft.headers);
      const properties = {
        ...tableOf(draft.properties),
        delivery_mode: Number(draft.mode),
        ...(Object.keys(headers).length ? { headers } : {}),
      };
      const body = {
        routing_key: queue ?? draft.key,
        properties,
        payload: draft.payload,
        payload_encoding: draft.encoding,
      };
      const answer = await post<{ routed: boolean }>(path("exchanges", vhost, exchangePart(exchange), "publish"), body);
      if (answer.routed)
        done(
          "Message published",
          queue ? `to ${queue}` : `to ${exchange || "(default)"} with ${draft.key || "no key"}`,
        );
      else setError("It was published and matches no binding, so it is in no queue.");
      then?.();
    } catch (caught) {
      setError(inWords(caught));
    } finally {
      setBusy(false);
    }
  };
  const publishFile = async (file: File | undefined) => {
    if (!file) return;
    try {
      const messages = parseLines(await file.text());
      const { published, routed } = await publishAll(vhost, exchange, messages, queue);
      done(
        `${plural(published, "message")} published`,
        routed < published ? `${published - routed} match no binding` : "",
      );
      then?.();
    } catch (caught) {
      failed(`${file.name} was not published whole`, caught);
    }
  };
  return (
    <Card title={queue === undefined ? "Publish a message" : `Publish to ${queue}`} lined>
      <form
        class="pad form"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            void send();
          }
        }}
      >
        {queue === undefined && (
          <Input label="Routing key" mono value={draft.key} onInput={(key) => setDraft({ ...draft, key })} />
        )}
        <div class="grid">
          <div class="c6">
            <Select
              label="Delivery mode"
              value={draft.mode}
              onChange={(mode) => setDraft({ ...draft, mode })}
              options={[
                ["2", "2, persistent"],
                ["1", "1, transient"],
              ]}
            />
          </div>
          <div class="c6">
            <Select
              label="Payload is"
              value={draft.encoding}
              onChange={(encoding) => setDraft({ ...draft, encoding })}
              options={[
                ["string", "text"],
                ["base64", "base64"],
              ]}
            />
          </div>
        </div>
        <TableEditor
          label="Headers"
          what="a header"
          entries={draft.headers}
          onChange={(headers) => setDraft({ ...draft, headers })}
        />
        <TableEditor
          label="Properties"
          what="a property"
          entries={draft.properties}
          onChange={(properties) => setDraft({ ...draft, properties })}
          known={PROPERTIES}
        />
        <Field label="Payload" error={error || undefined}>
          {(id) => (
            <textarea
              id={id}
              class="input mono"
              rows={8}
              spellcheck={false}
              value={draft.payload}
              onInput={(event) => setDraft({ ...draft, payload: event.currentTarget.value })}
            />
          )}
        </Field>
        <div class="row">
          <label class="btn file">
            <Icon name="upload" />
            Publish a file…
            <input
              type="file"
              class="hidden-text"
              accept=".jsonl,.json,.ndjson"
              onChange={(event) => void publishFile(event.currentTarget.files?.[0])}
            />
          </label>
          <span class="grow" />
          <button type="submit" class="btn primary" disabled={busy}>
            <Icon name="send" />
            Publish <span class="kbd hide-s">Ctrl ↵</span>
          </button>
        </div>
      </form>
    </Card>
  );
}
