// What is in a queue, and why it died there: a list and a drawer. Looking takes nothing and marks nothing.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, inWords, path, post } from "../lib/api";
import { bytes, iso, moment, plural, shown, whole } from "../lib/format";
import { onKey } from "../lib/keys";
import { place, setQuery } from "../lib/route";
import { may } from "../lib/session";
import type { Message, Queue } from "../lib/types";
import { useSettled } from "../lib/use";
import { Chip, Empty, Facts, Failed, Skeleton } from "../ui/basic";
import { Body, Marked } from "../ui/code";
import { showDialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { done, failed } from "../ui/toast";
import { line, save } from "./export";
import { MoveMessages } from "./move";

const COUNT = 100;
const SEARCHED = 1000;
const TRUNCATE = 1 << 20;

interface Found {
  messages: Message[];
  searched: number;
  next: number | null;
}

interface Death {
  reason: string;
  queue: string;
  count?: number;
  time?: number;
  exchange?: string;
  "routing-keys"?: string[];
}

const deathsOf = (message: Message): Death[] => {
  const found = message.properties.headers?.["x-death"];
  return Array.isArray(found) ? (found as Death[]).filter((one) => one && typeof one === "object") : [];
};

export function Messages({ queue, reload }: { queue: Queue; reload: () => void }): JSX.Element {
  const { query } = place.value;
  const search = useSettled(query.find ?? "", 300);
  const regex = query.re === "1";
  const newest = query.from === "newest";
  const opened = query.message === undefined ? undefined : Number(query.message);
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const total = queue.messages_ready;
  const start = newest ? Math.max(0, total - (search ? SEARCHED : COUNT)) : 0;
  const wanted = useRef(0);

  const load = async (offset: number, before: Found | null) => {
    const mine = ++wanted.current;
    setBusy(true);
    try {
      const address = path("queues", queue.vhost, queue.name, search ? "search" : "messages");
      const asked = { offset, truncate: TRUNCATE };
      let next: Found;
      if (search) {
        next = await get<Found>(address, {
          ...asked,
          text: search,
          use_regex: regex || undefined,
          count: SEARCHED,
          most: COUNT,
        });
      } else {
        const messages = await get<Message[]>(address, { ...asked, count: COUNT });
        const end = (messages[messages.length - 1]?.position ?? offset - 1) + 1;
        next = { messages, searched: messages.length, next: messages.length && end < total ? end : null };
      }
      if (wanted.current !== mine) return;
      setFound(
        before
          ? {
              messages: [...before.messages, ...next.messages],
              searched: before.searched + next.searched,
              next: next.next,
            }
          : next,
      );
      setError(undefined);
    } catch (caught) {
      if (wanted.current === mine) setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const again = () => void load(start, null);
  useEffect(again, [queue.vhost, queue.name, search, regex, newest]);

  const messages = found ? (newest ? [...found.messages].reverse() : found.messages) : [];
  const open = (position: number | undefined) =>
    setQuery({ message: position === undefined ? undefined : String(position) });
  const at = messages.findIndex((one) => one.position === opened);
  const step = (by: number) => {
    const next = messages[at < 0 ? 0 : Math.max(0, Math.min(messages.length - 1, at + by))];
    if (next) {
      open(next.position);
      document.querySelector(`[data-position="${next.position}"]`)?.scrollIntoView({ block: "nearest" });
    }
  };
  const act = useRef({ step, open, opened });
  act.current = { step, open, opened };
  useEffect(
    () =>
      onKey((key) => {
        if (key === "j" || key === "ArrowDown") act.current.step(1);
        else if (key === "k" || key === "ArrowUp") act.current.step(-1);
        else if (key === "Escape" && act.current.opened !== undefined) {
          const before = act.current.opened;
          act.current.open(undefined);
          document.querySelector<HTMLElement>(`[data-position="${before}"] button`)?.focus();
        } else return false;
        return true;
      }),
    [],
  );
  const message = at < 0 ? undefined : messages[at];

  return (
    <div class="messages">
      <div class="messages-list">
        <div class="filterbar two">
          <div class="with-icon grow wide-input">
            <Icon name="search" small />
            <input
              class={`input ${error && search ? "wrong" : ""}`}
              data-filter
              aria-label="Search bodies and headers"
              placeholder="Search bodies and headers"
              value={query.find ?? ""}
              spellcheck={false}
              onInput={(event) => setQuery({ find: event.currentTarget.value || undefined, message: undefined })}
            />
            <span class="end">
              <button
                type="button"
                class="toggle-in"
                aria-pressed={regex}
                aria-label="Regular expression"
                title="Regular expression"
                onClick={() => setQuery({ re: regex ? undefined : "1" })}
              >
                .*
              </button>
            </span>
          </div>
          <div class="seg" role="group" aria-label="Where to begin">
            <button
              type="button"
              aria-pressed={newest}
              onClick={() => setQuery({ from: "newest", message: undefined })}
            >
              Newest
            </button>
            <button
              type="button"
              aria-pressed={!newest}
              onClick={() => setQuery({ from: undefined, message: undefined })}
            >
              Oldest
            </button>
          </div>
          <button type="button" class="btn s" onClick={again} disabled={busy}>
            <Icon name="replay" small />
            Look again
          </button>
        </div>
        <section class="card clip" aria-label="Messages">
          {error !== undefined && search ? (
            <p class="hint bad small pad-in" role="alert">
              {inWords(error)}
            </p>
          ) : error !== undefined ? (
            <Failed error={error} what="The messages" />
          ) : null}
          {!found && error === undefined && <Skeleton lines={6} />}
          {found && messages.length > 0 && (
            <table class="table dense">
              <colgroup>
                <col class="w-number" />
                <col />
                <col class="w-died" />
                <col class="w-size" />
              </colgroup>
              <thead>
                <tr>
                  <th class="num">#</th>
                  <th>Routing key</th>
                  <th>Died of</th>
                  <th class="num">Size</th>
                </tr>
              </thead>
              <tbody>
                {messages.map((one) => (
                  <tr
                    key={one.position}
                    data-position={one.position}
                    class={one.position === opened ? "here" : ""}
                    aria-selected={one.position === opened}
                    onClick={() => open(one.position)}
                  >
                    <td class="num muted">{one.position}</td>
                    <td class="mono">
                      <button type="button" class="link" aria-label={`Message ${one.position}, ${one.routing_key}`}>
                        {one.routing_key || "(none)"}
                      </button>
                      {one.redelivered && <Chip>redelivered</Chip>}
                    </td>
                    <td>
                      <Died deaths={deathsOf(one)} />
                    </td>
                    <td class="num">{bytes(one.payload_bytes)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {found && !messages.length && (
            <Empty
              icon={search ? "search" : "empty"}
              title={search ? "No message matches" : "There are no messages in this queue"}
            >
              {search && <p>{whole(found.searched)} were searched.</p>}
            </Empty>
          )}
          <div class="tfoot">
            <Icon name="eye" small />
            <span class="hide-s">Peek takes nothing and marks nothing.</span>
            <span class="grow" />
            {found && (
              <span role="status">
                {search
                  ? `${whole(messages.length)} match in ${whole(found.searched)} searched`
                  : `${whole(messages.length)} of ${whole(total)}`}
              </span>
            )}
            {found?.next !== null && found && !newest && (
              <button
                type="button"
                class="btn quiet s"
                disabled={busy}
                onClick={() => void load(found.next ?? 0, found)}
              >
                {search ? "Search on" : "Show more"}
              </button>
            )}
          </div>
        </section>
      </div>
      {message && (
        <Drawer
          queue={queue}
          message={message}
          mark={regex ? "" : search}
          close={() => open(undefined)}
          step={step}
          changed={() => {
            open(undefined);
            again();
            reload();
          }}
        />
      )}
    </div>
  );
}

function Died({ deaths }: { deaths: Death[] }): JSX.Element | null {
  const first = deaths[0];
  if (!first) return null;
  const count = first.count ?? 1;
  return <Chip kind={KINDS[first.reason] ?? ""}>{count > 1 ? `${first.reason} ×${count}` : first.reason}</Chip>;
}

export const KINDS: Record<string, "bad" | "warn"> = {
  rejected: "bad",
  delivery_limit: "bad",
  expired: "warn",
  maxlen: "warn",
};

function Drawer(props: {
  queue: Queue;
  message: Message;
  mark: string;
  close: () => void;
  step: (by: number) => void;
  changed: () => void;
}): JSX.Element {
  const { queue, message, mark } = props;
  const { headers = {}, ...rest } = message.properties;
  const deaths = deathsOf(message);
  const origin = deaths[0]?.queue;
  const others = Object.entries(headers).filter(([name]) => name !== "x-death");
  const box = useRef<HTMLElement>(null);
  useEffect(() => box.current?.focus({ preventScroll: true }), []);
  const republish = async () => {
    if (!origin) return;
    try {
      // Only the first message of a group can be meant without moving others: so it is only offered for the first.
      const result = await post<{ moved: number }>(path("queues", queue.vhost, queue.name, "replay"), { count: 1 });
      if (result.moved) done(`1 message replayed to ${origin}`);
      else failed("Not replayed", new Error(`It could not be placed in ${origin}; it stayed here.`));
      props.changed();
    } catch (error) {
      failed("Not replayed", error);
    }
  };
  return (
    <aside
      class="drawer"
      role="dialog"
      aria-label={`Message ${message.position} of ${queue.name}`}
      tabIndex={-1}
      ref={box}
    >
      <header>
        <h2>Message {whole(message.position)}</h2>
        <span class="muted small">of {whole(queue.messages_ready)}</span>
        <span class="grow" />
        <button type="button" class="btn quiet s icon" aria-label="Previous message" onClick={() => props.step(-1)}>
          <Icon name="up" />
        </button>
        <button type="button" class="btn quiet s icon" aria-label="Next message" onClick={() => props.step(1)}>
          <Icon name="down" />
        </button>
        <span class="kbd">K</span>
        <span class="kbd">J</span>
        <button type="button" class="btn quiet s icon" aria-label="Close" onClick={props.close}>
          <Icon name="x" />
        </button>
      </header>
      <div class="body">
        <section>
          <Facts
            tight
            rows={[
              ["Exchange", message.exchange || "(default)"],
              ["Routing key", <code key="key">{message.routing_key}</code>],
              ...Object.entries(rest).map(([name, value]): [string, JSX.Element | string] => [
                name.replace(/_/g, " "),
                name === "timestamp" && typeof value === "number" ? (
                  <span title={iso(value * 1000)}>{moment(value * 1000)}</span>
                ) : name === "delivery_mode" ? (
                  value === 2 ? (
                    "2, persistent"
                  ) : (
                    "1, transient"
                  )
                ) : (
                  shown(value)
                ),
              ]),
            ]}
          />
        </section>
        <section>
          <Body
            key={message.position}
            payload={message.payload}
            encoding={message.payload_encoding}
            size={message.payload_bytes}
            mark={mark}
          />
        </section>
        {deaths.length > 0 && (
          <section>
            <h3>
              Deaths <span class="muted">in {plural(new Set(deaths.map((one) => one.queue)).size, "queue")}</span>
            </h3>
            <ol class="timeline">
              {deaths.map((one, index) => (
                <li key={index} class={KINDS[one.reason] === "bad" ? "c-dead" : "c-redelivered"}>
                  <div class="row">
                    <Chip kind={KINDS[one.reason] ?? ""}>
                      {(one.count ?? 1) > 1 ? `${one.reason} ×${one.count}` : one.reason}
                    </Chip>
                    <span>in</span>
                    <span class="strong">{one.queue}</span>
                    {one.time !== undefined && <time title={iso(one.time * 1000)}>{moment(one.time * 1000)}</time>}
                  </div>
                  <p class="small muted">
                    from <code>{one.exchange || "(default)"}</code> with{" "}
                    <code>{(one["routing-keys"] ?? []).join(", ")}</code>
                  </p>
                </li>
              ))}
            </ol>
          </section>
        )}
        {others.length > 0 && (
          <section>
            <h3>
              Headers <span class="muted">{others.length}</span>
            </h3>
            <Facts
              rows={others.map(([name, value]) => [
                <code key="name">
                  <Marked text={name} mark={mark} />
                </code>,
                <>
                  <code>
                    <Marked text={typeof value === "string" ? value : JSON.stringify(value)} mark={mark} />
                  </code>
                  <span class="type">{value === null ? "void" : Array.isArray(value) ? "array" : typeof value}</span>
                </>,
              ])}
            />
          </section>
        )}
      </div>
      <footer>
        {origin && message.position === 0 && may("read", queue.vhost, queue.name) && (
          <button type="button" class="btn primary" onClick={() => void republish()}>
            <Icon name="replay" />
            <span class="cut">Replay to {origin}</span>
          </button>
        )}
        {may("read", queue.vhost, queue.name) && (
          <button
            type="button"
            class="btn"
            onClick={() => showDialog(() => <MoveMessages queues={[queue]} then={props.changed} />)}
          >
            <Icon name="move" />
            Move…
          </button>
        )}
        <button
          type="button"
          class="btn"
          onClick={() => save(`message-${message.position}.jsonl`, "application/jsonl", [line(message), "\n"])}
        >
          <Icon name="download" />
          Export
        </button>
      </footer>
    </aside>
  );
}
