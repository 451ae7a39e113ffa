// Messages as JSON lines: to a file, and out of one.

import { get, path, post } from "../lib/api";
import type { Message } from "../lib/types";

const PIECE = 500;

export function save(name: string, type: string, parts: BlobPart[]): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** All ready messages of a queue, one a line, as a file; they stay where they are. How many there were. */
export async function exportMessages(vhost: string, queue: string): Promise<number> {
  const lines: string[] = [];
  for (let offset = 0; ; ) {
    const found = await get<Message[]>(path("queues", vhost, queue, "messages"), { offset, count: PIECE });
    for (const one of found) lines.push(`${line(one)}\n`);
    if (!found.length) break;
    offset = (found[found.length - 1]?.position ?? offset) + 1;
  }
  save(`${queue.replace(/[^\w.-]+/g, "_")}.jsonl`, "application/jsonl", lines);
  return lines.length;
}

export function line({ exchange, routing_key, properties, payload, payload_encoding }: Message): string {
  return JSON.stringify({ exchange, routing_key, properties, payload, payload_encoding });
}

export interface Publishing {
  routing_key: string;
  properties: Record<string, unknown>;
  payload: string;
  payload_encoding: "string" | "base64";
}

/** The messages of a file, or what is wrong with which line. */
export function parseLines(text: string): Publishing[] {
  return text
    .split("\n")
    .map((row, at) => [row.trim(), at + 1] as const)
    .filter(([row]) => row)
    .map(([row, number]) => {
      let found: Partial<Publishing>;
      try {
        found = JSON.parse(row) as Partial<Publishing>;
      } catch {
        throw new Error(`Line ${number} is not JSON.`);
      }
      if (typeof found !== "object" || found === null || typeof found.payload !== "string")
        throw new Error(`Line ${number} has no payload.`);
      return {
        routing_key: typeof found.routing_key === "string" ? found.routing_key : "",
        properties: found.properties ?? {},
        payload: found.payload,
        payload_encoding: found.payload_encoding === "base64" ? "base64" : "string",
      };
    });
}

/** Publish them in order; stops at the first that is refused. */
export async function publishAll(
  vhost: string,
  exchange: string,
  messages: Publishing[],
  routingKey?: string,
): Promise<{ published: number; routed: number }> {
  let published = 0;
  let routed = 0;
  for (const message of messages) {
    const answer = await post<{ routed: boolean }>(path("exchanges", vhost, exchange || "amq.default", "publish"), {
      ...message,
      routing_key: routingKey ?? message.routing_key,
    });
    published++;
    if (answer.routed) routed++;
  }
  return { published, routed };
}
