// Is anything wrong? How busy are we?

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { bytes, duration, percent, plural, rate, whole } from "../lib/format";
import { counts, recent } from "../lib/live";
import { place, scope, setQuery, to } from "../lib/route";
import {
  asked,
  type Data,
  type Details,
  isRange,
  joined,
  lastMinute,
  lengths,
  perSecond,
  RANGES,
  type Range,
  rates,
  refreshMs,
  seconds,
} from "../lib/samples";
import { isMonitor, session } from "../lib/session";
import { useGet } from "../lib/use";
import { Card, Choice, Dots, Facts, Head, Meter, Name, Pill, Shown, Stat } from "../ui/basic";
import { Chart, type Series } from "../ui/chart";
import { Spark } from "../ui/spark";
import { NeedsAttention, useAttention } from "./attention";

type Stats = Record<string, number | Details>;

interface Totals {
  message_stats?: Stats;
  queue_totals?: Stats;
  object_totals?: Record<string, number>;
  churn_rates?: Stats;
  listeners?: { protocol: string; ip_address: string; port: number }[];
  // A vhost has them by itself.
  [name: string]: unknown;
}

const QUEUED: Series[] = [
  { label: "Ready", color: "in", fill: true },
  { label: "Unacked", color: "unacked" },
];
const RATES: Series[] = [
  { label: "Published", color: "in" },
  { label: "Delivered", color: "out" },
  { label: "Acked", color: "ack", dashed: true },
  { label: "Unroutable", color: "dead" },
];

const detail = (stats: Stats | undefined, name: string): Details | undefined =>
  stats?.[`${name}_details`] as Details | undefined;

/** Lines of the same times, added up. */
function sum(data: Data, groups: number[][]): Data {
  return {
    times: data.times,
    lines: groups.map((group) =>
      data.times.map((_, at) =>
        group.reduce<number | null>((all, line) => add(all, data.lines[line]?.[at] ?? null), 0),
      ),
    ),
  };
}

const add = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

export function useRange(options: readonly (readonly [Range, string])[] = RANGES): [Range, JSX.Element] {
  const given = place.value.query.range;
  const range = isRange(given) && options.some(([one]) => one === given) ? given : "10m";
  return [
    range,
    <div key="ranges" data-ranges>
      <Choice label="Time range" options={options} value={range} onChange={(value) => setQuery({ range: value })} />
    </div>,
  ];
}

export function Overview(): JSX.Element {
  const [range, choice] = useRange();
  const vhost = scope.value;
  const address = vhost === undefined ? "api/overview" : `api/vhosts/${encodeURIComponent(vhost)}`;
  const totals = useGet<Totals>(address, asked(range, ["lengths", "msg_rates"]), refreshMs(range));
  const attention = useAttention();
  const stats = totals.value?.message_stats;
  const queued = (vhost === undefined ? totals.value?.queue_totals : totals.value) as Stats | undefined;
  const live = vhost === undefined ? counts.value : null;

  const queuedData = useMemo(() => {
    const older = lengths([detail(queued, "messages_ready"), detail(queued, "messages_unacknowledged")]);
    if (range !== "1m" || !live) return older;
    return joined(
      older,
      lastMinute(recent, Date.now(), (one) => [
        one.queue_totals.messages_ready ?? 0,
        one.queue_totals.messages_unacknowledged ?? 0,
      ]),
    );
  }, [queued, live, range]);

  const rateData = useMemo(() => {
    const names = ["publish", "deliver_get", "ack", "drop_unroutable", "return_unroutable"];
    const older = sum(rates(names.map((name) => detail(stats, name))), [[0], [1], [2], [3, 4]]);
    if (range !== "1m" || !live) return older;
    const newer = lastMinute(recent, Date.now(), (one, before) =>
      names.map((name) =>
        perSecond(
          one.message_stats[name] ?? delivered(one.message_stats, name),
          before?.message_stats[name] ?? delivered(before?.message_stats, name),
          one.time - (before?.time ?? 0),
        ),
      ),
    );
    return joined(older, sum(newer, [[0], [1], [2], [3, 4]]));
  }, [stats, live, range]);

  const objects = live?.object_totals ?? totals.value?.object_totals;
  const ready = live?.queue_totals.messages_ready ?? (queued?.messages_ready as number | undefined) ?? 0;
  const unacked =
    live?.queue_totals.messages_unacknowledged ?? (queued?.messages_unacknowledged as number | undefined) ?? 0;
  const now = useNow(live !== null, stats);
  const growing = attention?.items.find((one) => one.kind === "growing");
  const alarms = counts.value?.alarms?.length ?? 0;
  const span = seconds(range);
  const points = (line: number, data: Data) => (data.lines[line] ?? []).filter((one) => one !== null).slice(-40);
  const readyRate = detail(queued, "messages_ready")?.rate ?? 0;

  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title="Overview"
        sub={
          <Dots
            items={[
              session.value?.cluster_name,
              vhost,
              objects && plural(objects.queues ?? 0, "queue"),
              alarms ? (
                <span key="alarms" class="bad">
                  {plural(alarms, "alarm")}
                </span>
              ) : (
                "no alarms"
              ),
            ]}
          />
        }
      >
        {choice}
      </Head>
      <NeedsAttention attention={attention} />
      <div class="stats">
        <Stat
          label="Ready"
          color="in"
          value={whole(ready)}
          note={Math.abs(readyRate) < 0.05 ? "steady" : `${readyRate > 0 ? "+" : "−"}${rate(Math.abs(readyRate))}/s`}
          kind={growing ? "bad" : ""}
          spark={<Spark values={points(0, queuedData)} kind={growing ? "bad" : ""} />}
        />
        <Stat label="Unacked" color="unacked" value={whole(unacked)} spark={<Spark values={points(1, queuedData)} />} />
        <Stat
          label="Published"
          color="in"
          value={rate(now.published)}
          unit="/s"
          note={`confirmed ${rate(now.confirmed)}/s`}
          spark={<Spark values={points(0, rateData)} kind="in" />}
        />
        <Stat
          label="Delivered"
          color="out"
          value={rate(now.delivered)}
          unit="/s"
          note={`acked ${rate(now.acked)}/s`}
          spark={<Spark values={points(1, rateData)} kind="out" />}
        />
        {objects && (
          <Stat
            label="Connections"
            value={whole(objects.connections ?? 0)}
            note={plural(objects.channels ?? 0, "channel")}
          />
        )}
        {objects && (
          <Stat
            label="Consumers"
            value={whole(objects.consumers ?? 0)}
            note={attention?.counts.stuck ? `${whole(attention.counts.stuck)} stuck` : undefined}
            kind="warn"
          />
        )}
      </div>
      <div class="grid">
        <Card class="c6" title="Queued messages">
          <Chart
            series={QUEUED}
            data={queuedData}
            span={span}
            text={whole}
            height={150}
            label={`Queued messages: ${whole(ready)} ready and ${whole(unacked)} unacknowledged now.`}
          />
        </Card>
        <Card class="c6" title="Message rates" note="per second">
          <Chart
            series={RATES}
            data={rateData}
            span={span}
            text={rate}
            height={150}
            label={`Message rates: ${rate(now.published)} published and ${rate(now.delivered)} delivered a second now.`}
          />
        </Card>
        {isMonitor.value && <NodesCard />}
        {totals.value?.churn_rates && <Churn totals={totals.value} />}
      </div>
    </main>
  );
}

function delivered(stats: Record<string, number> | undefined, name: string): number | undefined {
  if (!stats || name !== "deliver_get") return undefined;
  return (stats.deliver ?? 0) + (stats.deliver_no_ack ?? 0) + (stats.get ?? 0) + (stats.get_no_ack ?? 0);
}

/** The rates of this moment: of the last seconds of the stream, or as the broker last said. */
function useNow(live: boolean, stats: Stats | undefined) {
  const after = recent[recent.length - 1];
  const before = recent[Math.max(0, recent.length - 4)];
  const of = (name: string): number => {
    if (live && after && before && after !== before) {
      const found = perSecond(
        after.message_stats[name] ?? delivered(after.message_stats, name),
        before.message_stats[name] ?? delivered(before.message_stats, name),
        after.time - before.time,
      );
      if (found !== null) return found;
    }
    return detail(stats, name)?.rate ?? 0;
  };
  return { published: of("publish"), confirmed: of("confirm"), delivered: of("deliver_get"), acked: of("ack") };
}

export interface Node {
  name: string;
  running: boolean;
  uptime?: number;
  mem_used?: number;
  mem_limit?: number;
  mem_alarm?: boolean;
  disk_free?: number;
  disk_free_limit?: number;
  disk_free_alarm?: boolean;
  fd_used?: number;
  fd_total?: number;
  sockets_used?: number;
  sockets_total?: number;
  processors?: number;
}

export function stateOf(node: Node): JSX.Element {
  if (!node.running) return <Pill kind="bad">Down</Pill>;
  if (node.mem_alarm) return <Pill kind="bad">Memory alarm</Pill>;
  if (node.disk_free_alarm) return <Pill kind="bad">Disk alarm</Pill>;
  return <Pill>Running</Pill>;
}

function NodesCard(): JSX.Element {
  const nodes = useGet<Node[]>("api/nodes");
  return (
    <Card
      class="c8 clip"
      title="Nodes"
      note={
        <a class="small" href={to("nodes")}>
          Cluster
        </a>
      }
    >
      <Shown of={nodes} what="The nodes">
        {(list) => (
          <table class="table list node-table">
            <thead>
              <tr>
                <th>Node</th>
                <th>State</th>
                <th class="num">Memory</th>
                <th class="num">Disk free</th>
                <th class="num">Sockets</th>
                <th class="num">Up</th>
              </tr>
            </thead>
            <tbody>
              {list.map((node) => (
                <tr key={node.name}>
                  <td>
                    <Name text={node.name} href={to("nodes", node.name)} />
                  </td>
                  <td class="l2">{stateOf(node)}</td>
                  <td class="num">
                    {bytes(node.mem_used ?? 0)}
                    <Meter mini value={percent(node.mem_used ?? 0, node.mem_limit ?? 0)} label="Memory" />
                  </td>
                  <td class="num gone">{bytes(node.disk_free ?? 0)}</td>
                  <td class="num gone">{whole(node.sockets_used ?? 0)}</td>
                  <td class="num l2">{duration(node.uptime ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Shown>
    </Card>
  );
}

const PORTS: [string, string, string[]][] = [
  ["AMQP", "amqp", ["amqp", "amqp/ssl"]],
  ["HTTP", "http", ["http", "https"]],
  ["Metrics", "prometheus", ["http/prometheus"]],
];

function Churn({ totals }: { totals: Totals }): JSX.Element {
  const churn = totals.churn_rates ?? {};
  const of = (name: string) => whole((churn[name] as number | undefined) ?? 0);
  const rows: [string, string][] = [
    ["Connections", `${of("connection_created")} opened, ${of("connection_closed")} closed`],
    ["Channels", `${of("channel_created")} opened, ${of("channel_closed")} closed`],
    ["Queues", `${of("queue_declared")} declared, ${of("queue_deleted")} deleted`],
  ];
  for (const [title, , protocols] of PORTS) {
    const ports = (totals.listeners ?? [])
      .filter((one) => protocols.includes(one.protocol))
      .map((one) => `${one.ip_address}:${one.port}`);
    if (ports.length) rows.push([title, ports.join(", ")]);
  }
  return (
    <Card class="c4" title="Churn and listeners" note="since the start">
      <div class="pad">
        <Facts tight rows={rows} />
      </div>
    </Card>
  );
}
