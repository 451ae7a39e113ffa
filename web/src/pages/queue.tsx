// Why does this queue grow, and how long have I got?

import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import { path, post, remove } from "../lib/api";
import { bytes, clock, duration, moment, percent, plural, rate, shown, whole } from "../lib/format";
import { lostSince } from "../lib/live";
import { go, place, to, toWith, written } from "../lib/route";
import { asked, lengths, OBJECT_RANGES, rates, refreshMs, seconds } from "../lib/samples";
import { may } from "../lib/session";
import { type Binding, detailsOf, type Queue, rateOf, type Stats } from "../lib/types";
import { useGet } from "../lib/use";
import { Callout, Card, Chip, Dots, Empty, Facts, Failed, Head, Name, Skeleton, Stat, Tabs } from "../ui/basic";
import { Chart, type Series } from "../ui/chart";
import { confirmDestruction, showDialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { type Item, Menu } from "../ui/menu";
import { attempt, done, failed } from "../ui/toast";
import { findingOf, isBad, sentence, useAttention } from "./attention";
import { Bind } from "./declare";
import { exportMessages } from "./export";
import { GetMessages } from "./get";
import { Arguments, bindingAddress, exchangeHref } from "./lists";
import { Messages } from "./messages";
import { MoveMessages } from "./move";
import { useRange } from "./overview";
import { Publish } from "./publish";

const QUEUED: Series[] = [
  { label: "Ready", color: "in", fill: true },
  { label: "Unacked", color: "unacked" },
];
const RATES: Series[] = [
  { label: "Published", color: "in" },
  { label: "Delivered", color: "out" },
  { label: "Acked", color: "ack", dashed: true },
  { label: "Redelivered", color: "redelivered" },
];

export function QueuePage({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const tab = place.value.query.tab ?? "overview";
  const [range, choice] = useRange(OBJECT_RANGES);
  const address = path("queues", vhost, name);
  const found = useGet<Queue>(address, asked(range, ["lengths", "msg_rates"]), refreshMs(range));
  const bindings = useGet<Binding[]>(path("queues", vhost, name, "bindings"));
  const queue = found.value;
  if (found.error !== undefined || !queue) {
    return (
      <main class="main" id="main" tabIndex={-1}>
        <Head title={name} copy={name} />
        {found.error !== undefined ? <Failed error={found.error} what={`The queue ${name}`} /> : <Skeleton lines={8} />}
      </main>
    );
  }
  const href = (id: string) =>
    written(["queues", vhost, name], {
      ...place.value.query,
      tab: id === "overview" ? undefined : id,
      message: undefined,
      find: undefined,
    });
  const tabs = [
    { id: "overview", text: "Overview", href: href("overview") },
    ...(may("read", vhost, name)
      ? [{ id: "messages", text: "Messages", count: whole(queue.messages_ready), href: href("messages") }]
      : []),
    { id: "consumers", text: "Consumers", count: whole(queue.consumers), href: href("consumers") },
    { id: "bindings", text: "Bindings", count: whole(bindings.value?.length ?? 0), href: href("bindings") },
    { id: "arguments", text: "Arguments and policy", href: href("arguments") },
    ...(may("write", vhost, "amq.default") ? [{ id: "publish", text: "Publish", href: href("publish") }] : []),
  ];
  const parts: Record<string, () => ComponentChildren> = {
    overview: () => <OverviewTab queue={queue} bindings={bindings.value ?? []} range={choice} span={seconds(range)} />,
    messages: () => <Messages queue={queue} reload={found.reload} />,
    consumers: () => <ConsumersCard queue={queue} />,
    bindings: () => (
      <BindingsCard vhost={vhost} name={name} kind="queue" bindings={bindings.value ?? []} reload={bindings.reload} />
    ),
    arguments: () => (
      <div class="grid">
        <Card class="c6" title="Arguments">
          <div class="pad">
            {Object.keys(queue.arguments).length ? (
              <Facts
                rows={Object.entries(queue.arguments).map(([key, value]) => [
                  <code key={key}>{key}</code>,
                  shown(value),
                ])}
              />
            ) : (
              <p class="muted">It was declared without arguments.</p>
            )}
          </div>
        </Card>
        <Settings queue={queue} class="c6" />
      </div>
    ),
    publish: () => <Publish vhost={vhost} exchange="" queue={name} then={found.reload} />,
  };
  return (
    <main class="main" id="main" tabIndex={-1}>
      <QueueHead queue={queue} reload={found.reload} />
      <Tabs label="Parts of this queue" tabs={tabs} current={tab} />
      {(parts[tab] ?? parts.overview)?.()}
    </main>
  );
}

function QueueHead({ queue, reload }: { queue: Queue; reload: () => void }): JSX.Element {
  const { vhost, name } = queue;
  const off = lostSince.value > 0;
  const configures = may("configure", vhost, name);
  const reads = may("read", vhost, name);
  const address = (...more: string[]) => path("queues", vhost, name, ...more);
  const pause = async () => {
    const verb = queue.consumers_paused ? "resume" : "pause";
    await attempt(`Consumers of ${name} ${queue.consumers_paused ? "resumed" : "paused"}`, `Not ${verb}d`, () =>
      post(address(verb), {}),
    );
    reload();
  };
  const typed = queue.messages >= 1000 ? plural(queue.messages, "message") : undefined;
  const items: Item[] = [];
  if (reads) {
    items.push({
      text: "Get…",
      icon: "consumer",
      act: () => showDialog(() => <GetMessages vhost={vhost} queue={name} then={reload} />),
    });
    items.push({
      text: "Export messages…",
      icon: "download",
      act: () =>
        void exportMessages(vhost, name)
          .then((count) => done(`${plural(count, "message")} exported`))
          .catch((error: unknown) => failed("Not exported", error)),
    });
    items.push({
      text: "Move…",
      icon: "move",
      act: () => showDialog(() => <MoveMessages queues={[queue]} then={reload} />),
    });
  }
  items.push({
    text: "Bind…",
    icon: "binding",
    act: () => showDialog(() => <Bind vhost={vhost} destination={name} kind="queue" />),
  });
  if (reads) {
    items.push({
      text: "Purge…",
      icon: "purge",
      bad: true,
      act: () =>
        confirmDestruction({
          title: `Purge ${name}?`,
          verb: "Purge",
          what: [{ name, loss: plural(queue.messages_ready, "ready message") }],
          typed,
          note: "Ready messages are deleted; unacknowledged ones stay with their consumers. This cannot be undone.",
          exportFirst: () => exportMessages(vhost, name),
          action: async () => {
            await remove(address("contents"));
            reload();
          },
          doneText: `${name} purged`,
        }),
    });
  }
  if (configures) {
    items.push({
      text: "Delete…",
      icon: "trash",
      bad: true,
      act: () =>
        confirmDestruction({
          title: `Delete ${name}?`,
          verb: "Delete queue",
          what: [{ name, loss: `${plural(queue.messages, "message")}, ${plural(queue.consumers, "consumer")}` }],
          typed,
          note: "Its bindings go too, and its consumers are cancelled. This cannot be undone.",
          exportFirst: queue.messages && reads ? () => exportMessages(vhost, name) : undefined,
          action: async () => {
            await remove(address());
            go(to("queues"));
          },
          doneText: `${name} deleted`,
        }),
    });
  }
  return (
    <Head
      title={name}
      copy={name}
      sub={
        <>
          <Chip>{queue.type}</Chip>
          {queue.durable && <Chip>durable</Chip>}
          {queue.exclusive && <Chip>exclusive</Chip>}
          {queue.auto_delete && <Chip>auto-delete</Chip>}
          {queue.policy && <Chip>policy: {queue.policy}</Chip>}
          {queue.consumers_paused && <Chip kind="warn">paused</Chip>}
          <Dots items={[`vhost ${vhost}`, queue.leader ? `leader ${queue.leader}` : queue.node]} />
        </>
      }
    >
      {reads && (
        <a
          class="btn primary grow-s"
          href={written(["queues", vhost, name], { ...place.value.query, tab: "messages" })}
        >
          <Icon name="eye" />
          Peek
        </a>
      )}
      {configures && (
        <button type="button" class="btn grow-s" disabled={off} onClick={() => void pause()}>
          <Icon name={queue.consumers_paused ? "play" : "pause"} />
          {queue.consumers_paused ? "Resume" : "Pause"}
        </button>
      )}
      <Menu label="More actions" items={items} />
    </Head>
  );
}

function OverviewTab({
  queue,
  bindings,
  range,
  span,
}: {
  queue: Queue;
  bindings: Binding[];
  range: JSX.Element;
  span: number;
}): JSX.Element {
  const attention = useAttention();
  const finding = findingOf(attention, queue.vhost, queue.name);
  const stats = queue.message_stats;
  const queued = useMemo(() => lengths([queue.messages_ready_details, queue.messages_unacknowledged_details]), [queue]);
  const traffic = useMemo(
    () => rates(["publish", "deliver_get", "ack", "redeliver"].map((name) => detailsOf(stats, name))),
    [stats],
  );
  const limit = limitOf(queue);
  const full = limit === undefined ? 0 : percent(queue.messages_ready, limit);
  const published = rateOf(stats, "publish");
  const delivered = rateOf(stats, "deliver_get");
  const head = queue.head_message_timestamp;
  return (
    <>
      {finding && (
        <Callout
          kind={isBad(finding) ? "bad" : "warn"}
          icon={finding.kind === "growing" ? "grow" : finding.kind === "stuck" ? "stuck" : "dead"}
          title={
            finding.kind === "growing"
              ? `Grows by ${rate(finding.rate ?? 0)} messages a second since ${clock(finding.since ?? 0, false)}`
              : sentence(finding)
          }
          actions={
            <>
              <a class="btn s" href={toWith(["queues", queue.vhost, queue.name], { tab: "consumers" })}>
                See consumers
              </a>
              {finding.kind === "growing" && (
                <a class="btn s" href={to("policies")}>
                  Change limit
                </a>
              )}
              {finding.kind === "dead_letters" && (
                <a class="btn s" href={toWith(["dead-letters", queue.vhost, queue.name], {})}>
                  Review and replay
                </a>
              )}
            </>
          }
        >
          {finding.kind === "growing" && (
            <>
              Publishers bring {rate(published)}/s, {plural(queue.consumers, "consumer")}{" "}
              {queue.consumers === 1 ? "acks" : "ack"} {rate(rateOf(stats, "ack"))}/s.{" "}
              {limit !== undefined &&
                finding.full_in_s !== null &&
                finding.full_in_s !== undefined &&
                `At ${whole(limit)} (max-length, in about ${duration(finding.full_in_s * 1000)}) ${overflowOf(queue)}.`}
            </>
          )}
        </Callout>
      )}
      <div class="stats">
        <Stat
          label="Ready"
          color="in"
          value={whole(queue.messages_ready)}
          note={limit === undefined ? "no limit" : `${Math.round(full)} % of ${whole(limit)}`}
          kind={full >= 95 ? "bad" : full >= 80 ? "warn" : ""}
        />
        <Stat
          label="Unacked"
          color="unacked"
          value={whole(queue.messages_unacknowledged)}
          note={queue.consumers ? `with ${plural(queue.consumers, "consumer")}` : "no consumers"}
        />
        <Stat
          label="Published"
          color="in"
          value={rate(published)}
          unit="/s"
          note={`from ${plural(queue.incoming?.length ?? 0, "exchange")}`}
        />
        <Stat
          label="Delivered"
          color="out"
          value={rate(delivered)}
          unit="/s"
          note={`redelivered ${rate(rateOf(stats, "redeliver"))}/s`}
        />
        <Stat
          label="Capacity"
          value={queue.consumers ? String(Math.round((queue.consumer_capacity ?? 0) * 100)) : "–"}
          unit={queue.consumers ? "%" : ""}
          note="ready to take more"
        />
        <Stat
          label="Oldest message"
          value={head ? duration(Date.now() - head * 1000) : "–"}
          note={head ? `head is ${moment(head * 1000)}` : queue.messages_ready ? "has no timestamp" : "nothing waits"}
        />
      </div>
      <div class="grid">
        <div class="c8 stack">
          <Card title="Queued messages" note={range}>
            <Chart
              series={QUEUED}
              data={queued}
              span={span}
              text={whole}
              limit={limit === undefined ? undefined : { value: limit, name: `max-length ${whole(limit)}` }}
              label={`Queued messages: ${whole(queue.messages_ready)} ready now.${limit === undefined ? "" : ` The limit is ${whole(limit)}.`}`}
            />
          </Card>
          <Card title="Message rates" note="per second">
            <Chart
              series={RATES}
              data={traffic}
              span={span}
              text={rate}
              label={`Message rates: ${rate(published)} published and ${rate(delivered)} delivered a second now.`}
            />
          </Card>
          <ConsumersCard queue={queue} />
        </div>
        <div class="c4 stack">
          <Card title="Details">
            <div class="pad">
              <Facts
                rows={[
                  [
                    "State",
                    queue.consumers_paused
                      ? "Consumers paused"
                      : queue.idle_since
                        ? `Idle since ${queue.idle_since.slice(0, 19).replace("T", " ")}`
                        : "Running",
                  ],
                  ["Node", queue.leader ?? queue.node],
                  ...(queue.members ? [["Members", queue.members.join(", ")] as [string, string]] : []),
                  [
                    "Size",
                    queue.messages
                      ? `${bytes(queue.message_bytes ?? 0)}, ${bytes((queue.message_bytes ?? 0) / queue.messages)} a message`
                      : bytes(queue.message_bytes ?? 0),
                  ],
                  [
                    "In memory",
                    `${plural(queue.messages_ram ?? 0, "message")}, ${bytes(queue.message_bytes_ram ?? 0)}`,
                  ],
                  ...(queue.owner_pid_details
                    ? [
                        [
                          "Owned by",
                          <a key="owner" href={to("connections", queue.owner_pid_details.name)}>
                            {queue.owner_pid_details.name}
                          </a>,
                        ] as [string, JSX.Element],
                      ]
                    : []),
                ]}
              />
            </div>
          </Card>
          <Settings queue={queue} />
          <Card
            title="Bindings in"
            note={
              <a class="small" href={to("topology")}>
                Topology
              </a>
            }
          >
            <div class="pad">
              <Facts
                rows={bindings.slice(0, 8).map((one) => [
                  <a key="from" href={exchangeHref(one.vhost, one.source)}>
                    {one.source || "(default)"}
                  </a>,
                  <>
                    <code>{one.routing_key}</code>
                    <span class="type">{rate(incomingRate(queue, one.source))}/s</span>
                  </>,
                ])}
              />
            </div>
          </Card>
        </div>
      </div>
    </>
  );
}

const incomingRate = (queue: Queue, exchange: string): number =>
  rateOf(queue.incoming?.find((one) => one.exchange.name === exchange)?.stats as Stats | undefined, "publish");

function limitOf(queue: Queue): number | undefined {
  const found = [queue.arguments["x-max-length"], queue.effective_policy_definition?.["max-length"]].filter(
    (one): one is number => typeof one === "number",
  );
  return found.length ? Math.min(...found) : undefined;
}

function overflowOf(queue: Queue): string {
  const overflow = queue.arguments["x-overflow"] ?? queue.effective_policy_definition?.overflow ?? "drop-head";
  return overflow === "drop-head" ? "the oldest messages are dropped" : "publishes are rejected";
}

function Settings({ queue, class: cls = "" }: { queue: Queue; class?: string }): JSX.Element {
  const own = Object.entries(queue.arguments)
    .filter(([name]) => name.startsWith("x-") && name !== "x-queue-type")
    .map(([name, value]) => [name.slice(2), value, "argument"] as const);
  const names = new Set(own.map(([name]) => name));
  const given = Object.entries(queue.effective_policy_definition ?? {}).filter(([name]) => !names.has(name));
  const rows = [...own, ...given.map(([name, value]) => [name, value, "policy"] as const)];
  return (
    <Card class={cls} title="Effective settings" note="argument or policy">
      <div class="pad">
        {rows.length ? (
          <Facts
            rows={rows.map(([name, value, origin]) => [
              <code key={name}>{name}</code>,
              <>
                <span>{shown(value)}</span>
                <span class="type">{origin}</span>
              </>,
            ])}
          />
        ) : (
          <p class="muted">Nothing is limited: neither by an argument nor by a policy.</p>
        )}
      </div>
    </Card>
  );
}

export function ConsumersCard({ queue }: { queue: Queue }): JSX.Element {
  const list = queue.consumer_details ?? [];
  return (
    <Card
      class="clip"
      title={
        <>
          Consumers <span class="muted plain-weight">{list.length}</span>
        </>
      }
    >
      {list.length ? (
        <table class="table list">
          <thead>
            <tr>
              <th>Consumer</th>
              <th>Address</th>
              <th>State</th>
              <th class="num">Prefetch</th>
            </tr>
          </thead>
          <tbody>
            {list.map((one) => (
              <tr key={`${one.channel_details.name}/${one.consumer_tag}`}>
                <td>
                  <Name text={one.consumer_tag} href={to("channels", one.channel_details.name)} />
                </td>
                <td class="gone mono soft">{`${one.channel_details.peer_host}:${one.channel_details.peer_port}`}</td>
                <td class="l2">{one.activity_status.replace(/_/g, " ")}</td>
                <td class="num">{whole(one.prefetch_count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty icon="consumer" title="Nobody consumes from this queue" />
      )}
    </Card>
  );
}

/** What leads to a queue or exchange, or from one. */
export function BindingsCard(props: {
  vhost: string;
  name: string;
  kind: "queue" | "exchange" | "source";
  bindings: Binding[];
  reload: () => void;
  title?: string;
}): JSX.Element {
  const from = props.kind === "source";
  const unbind = (one: Binding) =>
    confirmDestruction({
      title: `Unbind ${one.destination} from ${one.source}?`,
      verb: "Unbind",
      what: [{ name: one.routing_key || "(no key)", loss: one.destination_type }],
      note: "Messages that came this way no longer do.",
      action: async () => {
        await remove(bindingAddress(one));
        props.reload();
      },
      doneText: `${one.destination} unbound`,
    });
  return (
    <Card
      class="clip"
      title={props.title ?? "Bindings"}
      note={
        <button
          type="button"
          class="btn s"
          onClick={() =>
            showDialog(() => (
              <Bind
                vhost={props.vhost}
                {...(from
                  ? { source: props.name }
                  : { destination: props.name, kind: props.kind as "queue" | "exchange" })}
                then={props.reload}
              />
            ))
          }
        >
          <Icon name="plus" small />
          Bind…
        </button>
      }
    >
      {props.bindings.length ? (
        <table class="table list">
          <thead>
            <tr>
              <th>{from ? "To" : "From"}</th>
              <th>Routing key</th>
              <th>Arguments</th>
              <th class="w-act">
                <span class="hidden-text">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {props.bindings.map((one) => (
              <tr key={`${one.source}\n${one.destination_type}\n${one.destination}\n${one.properties_key}`}>
                <td>
                  {from ? (
                    <Name
                      text={one.destination}
                      href={
                        one.destination_type === "queue"
                          ? toWith(["queues", one.vhost, one.destination], {})
                          : exchangeHref(one.vhost, one.destination)
                      }
                    />
                  ) : (
                    <Name text={one.source} href={exchangeHref(one.vhost, one.source)} />
                  )}
                </td>
                <td class="mono l2">{one.routing_key}</td>
                <td class="gone">
                  <Arguments table={one.arguments} />
                </td>
                <td class="num">
                  {one.source !== "" && (
                    <button
                      type="button"
                      class="btn quiet s icon"
                      aria-label={`Unbind ${one.destination}, ${one.routing_key}`}
                      onClick={() => unbind(one)}
                    >
                      <Icon name="x" small />
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty icon="binding" title="Nothing is bound here" />
      )}
    </Card>
  );
}
