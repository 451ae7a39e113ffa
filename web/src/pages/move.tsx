import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exchangePart, path, post } from "../lib/api";
import { plural } from "../lib/format";
import type { Queue } from "../lib/types";
import { Choice, Input } from "../ui/basic";
import { FormDialog } from "../ui/dialog";
import { done } from "../ui/toast";

interface Moved {
  moved: number;
  left: number;
}

/** Move messages to another queue, or to an exchange with their own key or another. */
export function MoveMessages({
  queues,
  then,
}: {
  queues: Pick<Queue, "vhost" | "name" | "messages_ready">[];
  then?: () => void;
}): JSX.Element {
  const [kind, setKind] = useState<"queue" | "exchange">("queue");
  const [target, setTarget] = useState("");
  const [key, setKey] = useState("");
  const [count, setCount] = useState("");
  const ready = queues.reduce((sum, queue) => sum + queue.messages_ready, 0);
  const send = async () => {
    let moved = 0;
    let left = 0;
    for (const queue of queues) {
      const body: Record<string, unknown> = kind === "queue" ? { queue: target } : { exchange: exchangePart(target) };
      if (kind === "exchange" && key) body.routing_key = key;
      if (count.trim()) body.count = Number(count.replace(/\D/g, ""));
      const result = await post<Moved>(path("queues", queue.vhost, queue.name, "move"), body);
      moved += result.moved;
      left += result.left;
    }
    done(
      `${plural(moved, "message")} moved`,
      left ? `${plural(left, "message")} could not be placed and stayed` : `to ${target || "(default)"}`,
    );
    then?.();
  };
  return (
    <FormDialog
      title={`Move messages out of ${queues.length === 1 ? queues[0]?.name : plural(queues.length, "queue")}`}
      verb="Move messages"
      send={send}
      disabled={kind === "queue" && !target}
    >
      <Choice
        label="Where to"
        fill
        value={kind}
        onChange={setKind}
        options={[
          ["queue", "To a queue"],
          ["exchange", "To an exchange"],
        ]}
      />
      <Input
        label={kind === "queue" ? "Queue" : "Exchange"}
        value={target}
        onInput={setTarget}
        hint={kind === "exchange" ? "Empty for the default exchange" : undefined}
        focus
      />
      {kind === "exchange" && (
        <Input label="Routing key" value={key} onInput={setKey} mono hint="Empty: the key each message has" />
      )}
      <Input
        label="How many"
        value={count}
        onInput={setCount}
        placeholder={`all ${ready}`}
        hint="Oldest first. What cannot be placed stays where it is. A crash leaves each message in one place only."
      />
    </FormDialog>
  );
}
