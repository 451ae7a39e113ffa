import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { inWords, path, post } from "../lib/api";
import type { Message } from "../lib/types";
import { Input, Select } from "../ui/basic";
import { closeDialog, Dialog } from "../ui/dialog";

/** Get messages as a client would: unlike peeking, it changes them. */
export function GetMessages({ vhost, queue, then }: { vhost: string; queue: string; then: () => void }): JSX.Element {
  const [mode, setMode] = useState("ack_requeue_true");
  const [count, setCount] = useState("1");
  const [found, setFound] = useState<Message[] | null>(null);
  const [error, setError] = useState("");
  const send = async () => {
    setError("");
    try {
      setFound(
        await post<Message[]>(path("queues", vhost, queue, "get"), {
          count: Number(count),
          ackmode: mode,
          encoding: "auto",
          truncate: 50_000,
        }),
      );
      then();
    } catch (caught) {
      setError(inWords(caught));
    }
  };
  return (
    <Dialog
      title={`Get messages from ${queue}`}
      wide
      onSubmit={() => void send()}
      footer={
        <>
          <button type="button" class="btn" onClick={closeDialog}>
            Close
          </button>
          <button
            type="submit"
            class={mode === "ack_requeue_true" || mode === "reject_requeue_true" ? "btn primary" : "btn destroy"}
          >
            Get messages
          </button>
        </>
      }
    >
      <p>Getting marks messages as redelivered, or takes them. To look without touching, peek.</p>
      <Select
        label="Then"
        value={mode}
        onChange={setMode}
        options={[
          ["ack_requeue_true", "Put them back, marked as redelivered"],
          ["ack_requeue_false", "Acknowledge: they are gone"],
          ["reject_requeue_false", "Reject: they die, and go to the dead letters if there are any"],
        ]}
      />
      <Input label="How many" value={count} onInput={setCount} />
      {error && (
        <p class="hint bad" role="alert">
          {error}
        </p>
      )}
      {found && (
        <div role="status">
          <p class="strong ink">{found.length ? `${found.length} got` : "The queue has no message"}</p>
          {found.map((one, at) => (
            <pre key={at} class="code" tabIndex={0}>
              <span class="l">{one.payload}</span>
            </pre>
          ))}
        </div>
      )}
    </Dialog>
  );
}
