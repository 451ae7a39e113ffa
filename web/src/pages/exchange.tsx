// Where would this message go?

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { exchangePart, inWords, path, post, remove } from "../lib/api";
import { plural, rate, shown, whole } from "../lib/format";
import { go, place, setQuery, to, toWith, written } from "../lib/route";
import { asked, OBJECT_RANGES, rates, refreshMs, seconds } from "../lib/samples";
import { may, mayPublish } from "../lib/session";
import { type Binding, detailsOf, type Exchange, rateOf } from "../lib/types";
import { useGet, useSettled } from "../lib/use";
import { Card, Chip, Dots, Empty, Facts, Failed, Head, Input, Skeleton, Tabs } from "../ui/basic";
import { Chart } from "../ui/chart";
import { confirmDestruction, showDialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { type Item, Menu } from "../ui/menu";
import { type Entry, TableEditor, tableOf } from "../ui/table-editor";
import { Bind } from "./declare";
import { exchangeHref } from "./lists";
import { useRange } from "./overview";
import { Publish } from "./publish";
import { BindingsCard } from "./queue";

export function ExchangePage({ vhost, name: part }: { vhost: string; name: string }): JSX.Element {
  const name = part === "amq.default" ? "" : part;
  const title = name || "(default)";
  const [range, choice] = useRange(OBJECT_RANGES);
  const tab = place.value.query.tab ?? "overview";
  const found = useGet<Exchange>(path("exchanges", vhost, part), asked(range, ["msg_rates"]), refreshMs(range));
  const out = useGet<Binding[]>(name ? path("exchanges", vhost, part, "bindings", "source") : null);
  const into = useGet<Binding[]>(path("exchanges", vhost, part, "bindings", "destination"));
  const exchange = found.value;
  const data = useMemo(
    () => rates([detailsOf(exchange?.message_stats, "publish_in"), detailsOf(exchange?.message_stats, "publish_out")]),
    [exchange],
  );
  if (found.error !== undefined || !exchange) {
    return (
      <main class="main" id="main" tabIndex={-1}>
        <Head title={title} copy={name} />
        {found.error !== undefined ? (
          <Failed error={found.error} what={`The exchange ${title}`} />
        ) : (
          <Skeleton lines={8} />
        )}
      </main>
    );
  }
  const items: Item[] = [];
  if (name && !name.startsWith("amq.") && may("configure", vhost, name)) {
    items.push({
      text: "Delete…",
      icon: "trash",
      bad: true,
      act: () =>
        confirmDestruction({
          title: `Delete ${name}?`,
          verb: "Delete exchange",
          what: [
            { name, loss: `${plural(out.value?.length ?? 0, "binding")} from it, ${into.value?.length ?? 0} to it` },
          ],
          note: "Its bindings go too. Who publishes to it is closed with 404. This cannot be undone.",
          action: async () => {
            await remove(path("exchanges", vhost, part));
            go(to("exchanges"));
          },
          doneText: `${name} deleted`,
        }),
    });
  }
  const href = (id: string) =>
    written(["exchanges", vhost, part], { ...place.value.query, tab: id === "overview" ? undefined : id });
  const tabs = [
    { id: "overview", text: "Overview", href: href("overview") },
    ...(mayPublish(vhost, name) && !exchange.internal
      ? [{ id: "publish", text: "Publish", href: href("publish") }]
      : []),
  ];
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title={title}
        copy={name}
        sub={
          <>
            <Chip>{exchange.type}</Chip>
            {exchange.durable && <Chip>durable</Chip>}
            {exchange.internal && <Chip>internal</Chip>}
            {exchange.auto_delete && <Chip>auto-delete</Chip>}
            {exchange.policy && <Chip>policy: {exchange.policy}</Chip>}
            <Dots
              items={[
                `vhost ${vhost}`,
                name && `${plural(out.value?.length ?? 0, "binding")} out`,
                `${whole(into.value?.length ?? 0)} in`,
              ]}
            />
          </>
        }
      >
        {name && (
          <button
            type="button"
            class="btn"
            data-new
            onClick={() => showDialog(() => <Bind vhost={vhost} source={name} then={out.reload} />)}
          >
            <Icon name="binding" />
            Bind…
          </button>
        )}
        <a class="btn hide-s" href={toWith(["topology"], { q: name || undefined })}>
          <Icon name="topology" />
          Topology
        </a>
        <Menu label="More actions" items={items} />
      </Head>
      {tabs.length > 1 && <Tabs label="Parts of this exchange" tabs={tabs} current={tab} />}
      {tab === "publish" ? (
        <Publish vhost={vhost} exchange={name} then={found.reload} />
      ) : (
        <div class="grid">
          <div class="c6 stack">
            <TryMessage vhost={vhost} exchange={exchange} />
          </div>
          <div class="c6 stack">
            <Card title="Message rates" note={choice}>
              <Chart
                series={[
                  { label: "Published in", color: "in" },
                  { label: "Routed out", color: "out" },
                ]}
                data={data}
                span={seconds(range)}
                text={rate}
                label={`${rate(rateOf(exchange.message_stats, "publish_in"))} published in and ${rate(rateOf(exchange.message_stats, "publish_out"))} routed out a second.`}
              />
            </Card>
            {name && (
              <BindingsCard
                title="Bindings from here"
                vhost={vhost}
                name={name}
                kind="source"
                bindings={out.value ?? []}
                reload={out.reload}
              />
            )}
            {name && (into.value?.length ?? 0) > 0 && (
              <BindingsCard
                title="Bindings to here"
                vhost={vhost}
                name={name}
                kind="exchange"
                bindings={into.value ?? []}
                reload={into.reload}
              />
            )}
            {(exchange.incoming?.length ?? 0) > 0 && (
              <Card title="Published by">
                <div class="pad">
                  <Facts
                    tight
                    rows={(exchange.incoming ?? []).slice(0, 10).map((one) => [
                      <a key="who" href={to("connections", one.channel_details.connection_name)}>
                        {one.channel_details.connection_name}
                      </a>,
                      `${rate(rateOf(one.stats, "publish"))}/s`,
                    ])}
                  />
                </div>
              </Card>
            )}
            {Object.keys(exchange.arguments).length > 0 && (
              <Card title="Arguments">
                <div class="pad">
                  <Facts
                    rows={Object.entries(exchange.arguments).map(([key, value]) => [
                      <code key={key}>{key}</code>,
                      shown(value),
                    ])}
                  />
                </div>
              </Card>
            )}
          </div>
        </div>
      )}
    </main>
  );
}

interface Step {
  source: string;
  source_type: string;
  destination: string;
  destination_type: "queue" | "exchange";
  depth: number;
  alternate: boolean;
  routing_key: string | null;
  arguments: Record<string, unknown>;
}

interface Answer {
  queues: { name: string; messages_ready: number; consumers: number }[];
  hits: Step[];
  misses: Step[];
  miss_count: number;
  random: boolean;
  complete: boolean;
}

/** Answered by the broker, without publishing. */
function TryMessage({ vhost, exchange }: { vhost: string; exchange: Exchange }): JSX.Element {
  const key = place.value.query.key ?? "";
  const [headers, setHeaders] = useState<Entry[]>([]);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState("");
  const asking = useSettled(JSON.stringify([key, headers]), 250);
  useEffect(() => {
    let current = true;
    const ask = async () => {
      try {
        const found = await post<Answer>(path("exchanges", vhost, exchangePart(exchange.name), "route"), {
          routing_key: key,
          headers: tableOf(headers),
        });
        if (!current) return;
        setAnswer(found);
        setError("");
      } catch (caught) {
        if (current) setError(inWords(caught));
      }
    };
    void ask();
    return () => {
      current = false;
    };
  }, [asking, vhost, exchange.name]);
  return (
    <>
      <Card title="Try a message" note="Nothing is published" lined>
        <div class="pad form">
          <Input label="Routing key" mono value={key} onInput={(value) => setQuery({ key: value || undefined })} />
          <TableEditor label="Headers" what="a header" entries={headers} onChange={setHeaders} />
          {error && (
            <p class="hint bad" role="alert">
              {error}
            </p>
          )}
        </div>
      </Card>
      {answer && (
        <section class="card clip" aria-live="polite" aria-label="Where it would go">
          <header>
            <h2>
              {answer.queues.length
                ? `Goes to ${answer.random ? "one or more of " : ""}${plural(answer.queues.length, "queue")}`
                : "Goes nowhere"}
            </h2>
            <span class="muted">
              {plural(answer.hits.length, "binding")} match, {whole(answer.miss_count)} do not
            </span>
          </header>
          <ul class="answer">
            {answer.hits.map((step, at) => (
              <StepRow
                key={`hit${at}`}
                step={step}
                vhost={vhost}
                hit
                word={key}
                queue={answer.queues.find((one) => step.destination_type === "queue" && one.name === step.destination)}
              />
            ))}
            {answer.misses.slice(0, 50).map((step, at) => (
              <StepRow key={`miss${at}`} step={step} vhost={vhost} hit={false} word={key} queue={undefined} />
            ))}
          </ul>
          {!answer.hits.length && !answer.misses.length && (
            <Empty icon="lost" title={exchange.name ? "Nothing is bound to this exchange" : "No queue has this name"}>
              <p>The message would be dropped, or returned to its publisher if it is mandatory.</p>
            </Empty>
          )}
        </section>
      )}
    </>
  );
}

function StepRow({
  step,
  vhost,
  hit,
  word,
  queue,
}: {
  step: Step;
  vhost: string;
  hit: boolean;
  word: string;
  queue: Answer["queues"][number] | undefined;
}): JSX.Element {
  const href =
    step.destination_type === "queue"
      ? toWith(["queues", vhost, step.destination], {})
      : exchangeHref(vhost, step.destination);
  return (
    <li class={`${hit ? "" : "no"} depth${Math.min(step.depth, 3)}`}>
      <Icon name={hit ? "check" : "x"} />
      <span class="row">
        <a class={hit ? "strong cut" : "plain cut"} href={href}>
          {step.destination}
        </a>
        <span class="muted small nowrap">
          {queue
            ? `${whole(queue.messages_ready)} ready, ${plural(queue.consumers, "consumer")}`
            : step.destination_type === "exchange"
              ? "exchange, goes on"
              : ""}
        </span>
      </span>
      <span class="hidden-text">{hit ? "match" : "no match"}</span>
      <p class="why">
        {step.depth > 0 && (
          <>
            by <code>{step.source}</code> with
          </>
        )}
        {step.alternate ? (
          "as the alternate exchange"
        ) : step.source_type === "topic" ? (
          <Words pattern={step.routing_key ?? ""} word={word} />
        ) : (
          <code class={hit ? "hit" : "miss"}>
            {step.source_type === "headers" ? JSON.stringify(step.arguments) : step.routing_key || "(any key)"}
          </code>
        )}
      </p>
    </li>
  );
}

export interface Word {
  text: string;
  kind: "hit" | "miss" | "";
}

/** Which words of a topic's pattern a key has; for people. Whether it matches at all is the broker's answer. */
export function wordsOf(pattern: string, key: string): Word[] {
  const words = pattern.split(".");
  const given = key === "" ? [] : key.split(".");
  let at = 0;
  let missed = false;
  return words.map((text, index): Word => {
    if (missed) return { text, kind: "" };
    if (text === "#") {
      const rest = words.slice(index + 1).filter((word) => word !== "#").length;
      at = Math.max(at, given.length - rest);
      return { text, kind: "hit" };
    }
    const fits = at < given.length && (text === "*" || text === given[at]);
    at++;
    missed = !fits;
    return { text, kind: fits ? "hit" : "miss" };
  });
}

function Words({ pattern, word }: { pattern: string; word: string }): JSX.Element {
  return (
    <code>
      {wordsOf(pattern, word).map((one, at) => (
        <span key={at}>
          {at > 0 && "."}
          <span class={one.kind}>{one.text}</span>
        </span>
      ))}
    </code>
  );
}
