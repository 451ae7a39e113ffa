// Which queue grows, is stuck, has nobody?

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { path, post, remove, withQuery } from "../lib/api";
import { plural, rate, whole } from "../lib/format";
import { place, scope, setQuery, toWith, written } from "../lib/route";
import { useRemoteRows } from "../lib/rows";
import { may } from "../lib/session";
import { type Queue, rateOf } from "../lib/types";
import { Chip, Dots, Empty, Head, Meter, Name, Num, Pill, Tabs } from "../ui/basic";
import { confirmDestruction, showDialog } from "../ui/dialog";
import { askedOf, type Column, Grid, SelectionBar, toEach, useSelection } from "../ui/grid";
import { Icon } from "../ui/icon";
import { Spark } from "../ui/spark";
import { done, failed } from "../ui/toast";
import { type Attention, findingOf, isBad, useAttention } from "./attention";
import { DeclareQueue } from "./declare";
import { exportMessages } from "./export";
import { MoveMessages } from "./move";

const NAME_COLUMNS =
  "name,vhost,type,durable,auto_delete,exclusive,arguments,node,leader,policy,operator_policy,effective_policy_definition,messages,messages_ready,messages_unacknowledged,messages_ready_details,message_bytes,memory,consumers,consumers_paused,consumer_capacity,message_stats,idle_since";

export const queueHref = (queue: { vhost: string; name: string }): string =>
  toWith(["queues", queue.vhost, queue.name], {});

/** How a queue is, in a word. */
export function stateOf(queue: Queue, attention: Attention | null): JSX.Element {
  const finding = findingOf(attention, queue.vhost, queue.name);
  if (queue.consumers_paused) return <Pill kind="hold">Paused</Pill>;
  if (finding?.kind === "growing") return <Pill kind={isBad(finding) ? "bad" : "warn"}>Growing</Pill>;
  if (finding?.kind === "stuck") return <Pill kind="warn">Stuck</Pill>;
  if (queue.messages_ready > 0 && !queue.consumers) return <Pill kind="warn">No consumers</Pill>;
  if ((queue.messages_ready_details?.rate ?? 0) < -1) return <Pill>Draining</Pill>;
  return <Pill>{queue.idle_since ? "Idle" : "Running"}</Pill>;
}

export function Traits({ queue }: { queue: Queue }): JSX.Element {
  const given = (name: string) => queue.arguments[`x-${name}`] ?? queue.effective_policy_definition?.[name];
  return (
    <>
      {queue.exclusive && <Chip>excl</Chip>}
      {queue.auto_delete && <Chip>AD</Chip>}
      {given("message-ttl") !== undefined && <Chip>TTL</Chip>}
      {given("dead-letter-exchange") !== undefined && <Chip>DLX</Chip>}
      {queue.arguments["x-single-active-consumer"] === true && <Chip>SAC</Chip>}
    </>
  );
}

function columns(attention: Attention | null, all: boolean): Column<Queue>[] {
  return [
    {
      key: "name",
      title: "Name",
      sort: "name",
      phone: "",
      show: (queue) => (
        <div class="name-cell">
          <Name text={queue.name} href={queueHref(queue)} />
          <span class="hide-s row gap1">
            <Traits queue={queue} />
          </span>
        </div>
      ),
    },
    { key: "vhost", title: "vhost", width: "9%", sort: "vhost", optional: !all, show: (queue) => queue.vhost },
    {
      key: "type",
      title: "Type",
      width: "72px",
      sort: "type",
      narrow: true,
      show: (queue) => <span class="soft">{queue.type}</span>,
    },
    { key: "state", title: "State", width: "128px", phone: "l2", show: (queue) => stateOf(queue, attention) },
    {
      key: "trend",
      title: "Last 10 min",
      width: "104px",
      show: (queue) => {
        const finding = findingOf(attention, queue.vhost, queue.name);
        const values = [...(queue.messages_ready_details?.samples ?? [])].reverse().map((one) => one.sample);
        return <Spark values={values} kind={finding ? (isBad(finding) ? "bad" : "warn") : ""} />;
      },
    },
    {
      key: "ready",
      title: "Ready",
      width: "88px",
      num: true,
      sort: "messages_ready",
      phone: "",
      show: (queue) => (
        <span class="strong">
          <Num value={queue.messages_ready} text={whole(queue.messages_ready)} />
        </span>
      ),
    },
    {
      key: "unacked",
      title: "Unacked",
      width: "84px",
      num: true,
      sort: "messages_unacknowledged",
      show: (queue) => <Num value={queue.messages_unacknowledged} text={whole(queue.messages_unacknowledged)} />,
    },
    {
      key: "in",
      title: "In/s",
      width: "72px",
      num: true,
      sort: "message_stats.publish_details.rate",
      phone: "l2",
      show: (queue) => <Rate value={rateOf(queue.message_stats, "publish")} />,
    },
    {
      key: "out",
      title: "Out/s",
      width: "72px",
      num: true,
      sort: "message_stats.deliver_get_details.rate",
      show: (queue) => <Rate value={rateOf(queue.message_stats, "deliver_get")} />,
    },
    {
      key: "consumers",
      title: "Consumers",
      width: "92px",
      num: true,
      sort: "consumers",
      show: (queue) => <Num value={queue.consumers} text={whole(queue.consumers)} />,
    },
    {
      key: "capacity",
      title: "Capacity",
      width: "128px",
      num: true,
      sort: "consumer_capacity",
      narrow: true,
      show: (queue) =>
        queue.consumers ? (
          <>
            {Math.round((queue.consumer_capacity ?? 0) * 100)} %
            <Meter mini value={(queue.consumer_capacity ?? 0) * 79} label="Capacity" />
          </>
        ) : (
          <span class="zero">–</span>
        ),
    },
    {
      key: "policy",
      title: "Policy",
      width: "10%",
      sort: "policy",
      optional: true,
      show: (queue) => queue.policy ?? "",
    },
    {
      key: "bytes",
      title: "Bytes",
      width: "90px",
      num: true,
      sort: "message_bytes",
      optional: true,
      show: (queue) => whole(queue.message_bytes ?? 0),
    },
    {
      key: "leader",
      title: "Node",
      width: "120px",
      optional: true,
      show: (queue) => <span class="soft">{queue.leader ?? queue.node}</span>,
    },
  ];
}

export const Rate = ({ value }: { value: number }): JSX.Element => <Num value={value} text={rate(value)} />;

const VIEWS: [string, string][] = [
  ["", "All"],
  ["growing", "Growing"],
  ["no_consumers", "No consumers"],
  ["stuck", "Stuck"],
  ["dead_letters", "Dead letters"],
  ["paused", "Paused"],
  ["idle", "Idle"],
];
const KINDS: Record<string, string> = { growing: "bad", stuck: "warn" };

export function Queues(): JSX.Element {
  const vhost = scope.value;
  const state = place.value.query.state ?? "";
  const asked = askedOf("name");
  const rows = useRemoteRows<Queue>(vhost === undefined ? "api/queues" : path("queues", vhost), asked, {
    state: state || undefined,
    columns: NAME_COLUMNS,
    lengths_age: 600,
    lengths_incr: 30,
  });
  const attention = useAttention();
  const selection = useSelection<Queue>();
  const wanted = place.value.query.new === "1";
  useEffect(() => {
    if (!wanted) return;
    setQuery({ new: undefined });
    showDialog(() => <DeclareQueue vhost={vhost} />);
  }, [wanted, vhost]);
  const tabs = VIEWS.map(([id, text]) => {
    const count = id ? attention?.states[id] : undefined;
    return {
      id,
      text,
      ...(count === undefined ? {} : { count: <span class={count ? (KINDS[id] ?? "") : ""}>{whole(count)}</span> }),
      href: written(["queues"], { ...place.value.query, state: id || undefined }),
    };
  });
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head title="Queues" sub={<Dots items={[`${whole(rows.total)}${vhost === undefined ? "" : ` in ${vhost}`}`]} />}>
        <button
          type="button"
          class="btn primary"
          data-new
          onClick={() => showDialog(() => <DeclareQueue vhost={vhost} />)}
        >
          <Icon name="plus" />
          Declare queue <span class="kbd hide-s">N</span>
        </button>
      </Head>
      <Tabs label="Saved views" tabs={tabs} current={state} />
      <Grid
        id="queues"
        label="Queues"
        rows={rows}
        asked={asked}
        columns={columns(attention, vhost === undefined)}
        keyOf={(queue) => `${queue.vhost}\n${queue.name}`}
        nameOf={(queue) => queue.name}
        href={queueHref}
        selected={selection}
        onPeek={(queue) => {
          location.hash = toWith(["queues", queue.vhost, queue.name], { tab: "messages" });
        }}
        empty={
          state ? (
            <Empty title="No queue is in this state">
              <p>That is how it should be.</p>
            </Empty>
          ) : (
            <Empty icon="queue" title="There are no queues here yet">
              <p>Clients declare them, or you do.</p>
            </Empty>
          )
        }
      />
      <Bulk selection={selection} reload={rows.reload} />
    </main>
  );
}

/** What can be done with many queues at once. */
function Bulk({
  selection,
  reload,
}: {
  selection: ReturnType<typeof useSelection<Queue>>;
  reload: () => void;
}): JSX.Element | null {
  const queues = [...selection.rows.values()];
  const messages = queues.reduce((sum, queue) => sum + queue.messages, 0);
  const configurable = queues.filter((queue) => may("configure", queue.vhost, queue.name));
  const readable = queues.filter((queue) => may("read", queue.vhost, queue.name));
  const what = plural(queues.length, "queue");
  const each = async (text: string, action: (queue: Queue) => Promise<unknown>) => {
    const result = await toEach(queues, action);
    if (result.error !== undefined) failed(`${text}: ${result.done} of ${queues.length}`, result.error);
    else done(`${text}: ${what}`);
    selection.set(new Map());
    reload();
  };
  const address = (queue: Queue, ...more: string[]) => path("queues", queue.vhost, queue.name, ...more);
  const doom = queues.map((queue) => ({
    name: queue.name,
    loss: `${plural(queue.messages, "message")}${queue.consumers ? `, ${plural(queue.consumers, "consumer")}` : ""}`,
  }));
  const typed = queues.length > 1 || messages >= 1000 ? what : undefined;
  const destroy = (verb: string, past: string, note: string, action: (queue: Queue) => Promise<unknown>) =>
    confirmDestruction({
      title: `${verb} ${what}${messages ? ` and ${plural(messages, "message")}` : ""}?`,
      verb: `${verb} ${what}`,
      what: doom,
      typed,
      note,
      exportFirst: messages
        ? () => Promise.all(queues.map((queue) => exportMessages(queue.vhost, queue.name)))
        : undefined,
      action: async () => {
        const result = await toEach(queues, action);
        reload();
        if (result.error !== undefined) throw result.error;
        selection.set(new Map());
      },
      doneText: `${past}: ${what}`,
    });
  const allPaused = queues.every((queue) => queue.consumers_paused);
  return (
    <SelectionBar selection={selection} what="Selected queues" note={plural(messages, "message")}>
      {configurable.length === queues.length && (
        <button
          type="button"
          class="btn quiet"
          onClick={() =>
            void each(allPaused ? "Resumed" : "Paused", (queue) =>
              post(address(queue, allPaused ? "resume" : "pause"), {}),
            )
          }
        >
          <Icon name={allPaused ? "play" : "pause"} />
          {allPaused ? "Resume" : "Pause"}
        </button>
      )}
      {readable.length === queues.length && (
        <>
          <button type="button" class="btn quiet" onClick={() => showDialog(() => <MoveMessages queues={queues} />)}>
            <Icon name="move" />
            Move messages…
          </button>
          <button
            type="button"
            class="btn quiet danger"
            onClick={() =>
              destroy(
                "Purge",
                "Purged",
                "Ready messages are deleted; unacknowledged ones stay with their consumers. This cannot be undone.",
                (queue) => remove(address(queue, "contents")),
              )
            }
          >
            <Icon name="purge" />
            Purge…
          </button>
        </>
      )}
      {configurable.length === queues.length && (
        <button
          type="button"
          class="btn quiet danger"
          onClick={() =>
            destroy(
              "Delete",
              "Deleted",
              "Their bindings go too, and their consumers are cancelled. This cannot be undone.",
              (queue) => remove(withQuery(address(queue), {})),
            )
          }
        >
          <Icon name="trash" />
          Delete…
        </button>
      )}
    </SelectionBar>
  );
}
