// The other lists: exchanges, bindings, connections, channels, consumers. Each is the queues' list with other columns.

import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { exchangePart, path, remove } from "../lib/api";
import { bytes, duration, plural, whole } from "../lib/format";
import { place, scope, setQuery, to, toWith } from "../lib/route";
import { useRemoteRows } from "../lib/rows";
import { isAdministrator, may, session } from "../lib/session";
import { type Binding, type Channel, type Connection, type Consumer, type Exchange, rateOf } from "../lib/types";
import { Chip, Dots, Empty, Head, Name, Num, Pill } from "../ui/basic";
import { confirmDestruction, showDialog } from "../ui/dialog";
import { askedOf, type Column, Grid, type Selection, SelectionBar, toEach, useSelection } from "../ui/grid";
import { Icon } from "../ui/icon";
import { Bind, DeclareExchange } from "./declare";
import { Rate } from "./queues";

const vhostColumn = <T extends { vhost: string }>(): Column<T> => ({
  key: "vhost",
  title: "vhost",
  width: "10%",
  sort: "vhost",
  optional: scope.value !== undefined,
  show: (row) => row.vhost,
});

function List(props: {
  title: string;
  total: number;
  children: ComponentChildren;
  action?: ComponentChildren;
}): JSX.Element {
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title={props.title}
        sub={<Dots items={[`${whole(props.total)}${scope.value === undefined ? "" : ` in ${scope.value}`}`]} />}
      >
        {props.action}
      </Head>
      {props.children}
    </main>
  );
}

const listed = (kind: string): string => (scope.value === undefined ? path(kind) : path(kind, scope.value));

/** Delete or close all that are selected, after a question. */
function Destroy<T>(props: {
  selection: Selection<T>;
  what: string;
  verb: string;
  past: string;
  nameOf: (row: T) => string;
  lossOf: (row: T) => string;
  action: (row: T) => Promise<unknown>;
  reload: () => void;
  note: string;
  allowed: (row: T) => boolean;
}): JSX.Element | null {
  const rows = [...props.selection.rows.values()];
  const count = plural(rows.length, props.what);
  return (
    <SelectionBar selection={props.selection} what={`Selected ${props.what}s`}>
      {rows.every(props.allowed) ? (
        <button
          type="button"
          class="btn quiet danger"
          onClick={() =>
            confirmDestruction({
              title: `${props.verb} ${count}?`,
              verb: `${props.verb} ${count}`,
              what: rows.map((row) => ({ name: props.nameOf(row), loss: props.lossOf(row) })),
              typed: rows.length > 1 ? count : undefined,
              note: props.note,
              action: async () => {
                const result = await toEach(rows, props.action);
                props.reload();
                if (result.error !== undefined) throw result.error;
                props.selection.set(new Map());
              },
              doneText: `${props.past}: ${count}`,
            })
          }
        >
          <Icon name="trash" />
          {props.verb}…
        </button>
      ) : (
        <span class="muted small pad-in">Some of them you may not change.</span>
      )}
    </SelectionBar>
  );
}

export const exchangeHref = (vhost: string, name: string): string =>
  toWith(["exchanges", vhost, exchangePart(name)], {});

const EXCHANGES: Column<Exchange>[] = [
  {
    key: "name",
    title: "Name",
    sort: "name",
    phone: "",
    show: (one) => <Name text={one.name} href={exchangeHref(one.vhost, one.name)} />,
  },
  {
    key: "type",
    title: "Type",
    width: "16%",
    sort: "type",
    phone: "l2",
    show: (one) => <span class="soft">{one.type}</span>,
  },
  {
    key: "traits",
    title: "Traits",
    width: "20%",
    show: (one) => (
      <span class="row gap1">
        {one.durable && <Chip>durable</Chip>}
        {one.auto_delete && <Chip>AD</Chip>}
        {one.internal && <Chip>internal</Chip>}
        {one.arguments["alternate-exchange"] !== undefined && <Chip>AE</Chip>}
      </span>
    ),
  },
  { key: "policy", title: "Policy", width: "12%", sort: "policy", narrow: true, show: (one) => one.policy ?? "" },
  {
    key: "in",
    title: "In/s",
    width: "88px",
    num: true,
    sort: "message_stats.publish_in_details.rate",
    phone: "",
    show: (one) => <Rate value={rateOf(one.message_stats, "publish_in")} />,
  },
  {
    key: "out",
    title: "Out/s",
    width: "88px",
    num: true,
    sort: "message_stats.publish_out_details.rate",
    show: (one) => <Rate value={rateOf(one.message_stats, "publish_out")} />,
  },
];

export function Exchanges(): JSX.Element {
  const asked = askedOf("name");
  const rows = useRemoteRows<Exchange>(listed("exchanges"), asked);
  const selection = useSelection<Exchange>();
  const wanted = place.value.query.new === "1";
  useEffect(() => {
    if (!wanted) return;
    setQuery({ new: undefined });
    showDialog(() => <DeclareExchange vhost={scope.value} />);
  }, [wanted]);
  return (
    <List
      title="Exchanges"
      total={rows.total}
      action={
        <button
          type="button"
          class="btn primary"
          data-new
          onClick={() => showDialog(() => <DeclareExchange vhost={scope.value} />)}
        >
          <Icon name="plus" />
          Declare exchange <span class="kbd hide-s">N</span>
        </button>
      }
    >
      <Grid
        id="exchanges"
        label="Exchanges"
        rows={rows}
        asked={asked}
        columns={[EXCHANGES[0] as Column<Exchange>, vhostColumn<Exchange>(), ...EXCHANGES.slice(1)]}
        keyOf={(one) => `${one.vhost}\n${one.name}`}
        nameOf={(one) => one.name || "(default)"}
        href={(one) => exchangeHref(one.vhost, one.name)}
        selected={selection}
        empty={<Empty icon="exchange" title="There are no exchanges here" />}
      />
      <Destroy
        selection={selection}
        what="exchange"
        verb="Delete"
        past="Deleted"
        nameOf={(one) => one.name || "(default)"}
        lossOf={(one) => one.type}
        allowed={(one) => one.name !== "" && !one.name.startsWith("amq.") && may("configure", one.vhost, one.name)}
        action={(one) => remove(path("exchanges", one.vhost, one.name))}
        reload={rows.reload}
        note="Their bindings go too. Who publishes to them is closed with 404. This cannot be undone."
      />
    </List>
  );
}

export const destinationHref = (one: Binding): string =>
  one.destination_type === "queue"
    ? toWith(["queues", one.vhost, one.destination], {})
    : exchangeHref(one.vhost, one.destination);

export const bindingAddress = (one: Binding): string =>
  path(
    "bindings",
    one.vhost,
    "e",
    exchangePart(one.source),
    one.destination_type === "queue" ? "q" : "e",
    exchangePart(one.destination),
    one.properties_key,
  );

export function Arguments({ table }: { table: Record<string, unknown> }): JSX.Element {
  return (
    <span class="row gap1">
      {Object.entries(table).map(([name, value]) => (
        <Chip key={name} mono>
          {name}: {typeof value === "string" ? value : JSON.stringify(value)}
        </Chip>
      ))}
    </span>
  );
}

const BINDINGS: Column<Binding>[] = [
  {
    key: "source",
    title: "From",
    sort: "source",
    phone: "",
    show: (one) => <Name text={one.source} href={exchangeHref(one.vhost, one.source)} />,
  },
  {
    key: "key",
    title: "Routing key",
    sort: "routing_key",
    phone: "",
    show: (one) => <code title={one.routing_key}>{one.routing_key}</code>,
  },
  {
    key: "destination",
    title: "To",
    sort: "destination",
    phone: "l2",
    show: (one) => <Name text={one.destination} href={destinationHref(one)} />,
  },
  {
    key: "kind",
    title: "Kind",
    width: "92px",
    sort: "destination_type",
    show: (one) => <span class="soft">{one.destination_type}</span>,
  },
  {
    key: "arguments",
    title: "Arguments",
    width: "22%",
    narrow: true,
    show: (one) => <Arguments table={one.arguments} />,
  },
];

export function Bindings(): JSX.Element {
  const asked = askedOf("");
  const rows = useRemoteRows<Binding>(listed("bindings"), asked);
  const selection = useSelection<Binding>();
  const vhost = scope.value ?? session.value?.permissions[0]?.vhost;
  return (
    <List
      title="Bindings"
      total={rows.total}
      action={
        vhost !== undefined && (
          <button
            type="button"
            class="btn primary"
            data-new
            onClick={() => showDialog(() => <Bind vhost={vhost} then={rows.reload} />)}
          >
            <Icon name="plus" />
            Bind <span class="kbd hide-s">N</span>
          </button>
        )
      }
    >
      <Grid
        id="bindings"
        label="Bindings"
        filterLabel="Filter by routing key"
        rows={rows}
        asked={asked}
        columns={[...BINDINGS.slice(0, 1), vhostColumn<Binding>(), ...BINDINGS.slice(1)]}
        keyOf={(one) =>
          `${one.vhost}\n${one.source}\n${one.destination_type}\n${one.destination}\n${one.properties_key}`
        }
        nameOf={(one) => `${one.source || "(default)"} to ${one.destination}`}
        selected={selection}
        empty={<Empty icon="binding" title="Nothing is bound yet" />}
      />
      <Destroy
        selection={selection}
        what="binding"
        verb="Unbind"
        past="Unbound"
        nameOf={(one) => `${one.source || "(default)"} → ${one.destination}`}
        lossOf={(one) => one.routing_key}
        allowed={(one) =>
          one.source !== "" && may("write", one.vhost, one.destination) && may("read", one.vhost, one.source)
        }
        action={(one) => remove(bindingAddress(one))}
        reload={rows.reload}
        note="Messages that came this way no longer do."
      />
    </List>
  );
}

const CONNECTIONS: Column<Connection>[] = [
  {
    key: "name",
    title: "Name",
    sort: "name",
    phone: "",
    show: (one) => (
      <div class="name-cell">
        <Name text={one.name} href={to("connections", one.name)} />
        {one.user_provided_name && <Chip>{one.user_provided_name}</Chip>}
      </div>
    ),
  },
  { key: "user", title: "User", width: "12%", sort: "user", phone: "l2", show: (one) => one.user },
  {
    key: "state",
    title: "State",
    width: "104px",
    sort: "state",
    phone: "l2",
    show: (one) => <Pill kind={one.state === "running" ? "" : "warn"}>{one.state}</Pill>,
  },
  {
    key: "client",
    title: "Client",
    width: "14%",
    narrow: true,
    show: (one) => (
      <span class="soft cut">
        {[one.client_properties.product, one.client_properties.version]
          .filter((part) => typeof part === "string")
          .join(" ")}
      </span>
    ),
  },
  {
    key: "channels",
    title: "Channels",
    width: "84px",
    num: true,
    sort: "channels",
    show: (one) => <Num value={one.channels} text={whole(one.channels)} />,
  },
  {
    key: "in",
    title: "From client",
    width: "104px",
    num: true,
    sort: "recv_oct_details.rate",
    phone: "",
    show: (one) => <Num value={one.recv_oct_details?.rate ?? 0} text={`${bytes(one.recv_oct_details?.rate ?? 0)}/s`} />,
  },
  {
    key: "out",
    title: "To client",
    width: "104px",
    num: true,
    sort: "send_oct_details.rate",
    show: (one) => <Num value={one.send_oct_details?.rate ?? 0} text={`${bytes(one.send_oct_details?.rate ?? 0)}/s`} />,
  },
  {
    key: "since",
    title: "Connected",
    width: "104px",
    num: true,
    sort: "connected_at",
    narrow: true,
    show: (one) => duration(Date.now() - one.connected_at),
  },
  { key: "tls", title: "TLS", width: "60px", optional: true, show: (one) => (one.ssl ? "yes" : "no") },
];

export function Connections(): JSX.Element {
  const asked = askedOf("name");
  const address = scope.value === undefined ? "api/connections" : path("vhosts", scope.value, "connections");
  const rows = useRemoteRows<Connection>(address, asked);
  const selection = useSelection<Connection>();
  return (
    <List title="Connections" total={rows.total}>
      <Grid
        id="connections"
        label="Connections"
        rows={rows}
        asked={asked}
        columns={[CONNECTIONS[0] as Column<Connection>, vhostColumn<Connection>(), ...CONNECTIONS.slice(1)]}
        keyOf={(one) => one.name}
        nameOf={(one) => one.name}
        href={(one) => to("connections", one.name)}
        selected={selection}
        empty={
          <Empty icon="connection" title="Nobody is connected">
            <p>Clients connect with AMQP 0-9-1.</p>
          </Empty>
        }
      />
      <Destroy
        selection={selection}
        what="connection"
        verb="Close"
        past="Closed"
        nameOf={(one) => one.user_provided_name || one.name}
        lossOf={(one) => plural(one.channels, "channel")}
        allowed={(one) => isAdministrator.value || one.user === session.value?.name}
        action={(one) => remove(path("connections", one.name), { "X-Reason": "Closed on the web page" })}
        reload={rows.reload}
        note="Their clients are told why. What they have not acknowledged goes back to its queues."
      />
    </List>
  );
}

const CHANNELS: Column<Channel>[] = [
  {
    key: "name",
    title: "Channel",
    sort: "name",
    phone: "",
    show: (one) => <Name text={one.name} href={to("channels", one.name)} />,
  },
  { key: "user", title: "User", width: "10%", sort: "user", phone: "l2", show: (one) => one.user },
  {
    key: "state",
    title: "State",
    width: "100px",
    sort: "state",
    phone: "l2",
    show: (one) => <Pill kind={one.state === "running" ? "" : "warn"}>{one.idle_since ? "idle" : one.state}</Pill>,
  },
  {
    key: "mode",
    title: "Mode",
    width: "100px",
    narrow: true,
    show: (one) => (
      <span class="row gap1">
        {one.confirm && <Chip>confirm</Chip>}
        {one.transactional && <Chip>tx</Chip>}
      </span>
    ),
  },
  {
    key: "prefetch",
    title: "Prefetch",
    width: "84px",
    num: true,
    sort: "prefetch_count",
    narrow: true,
    show: (one) => <Num value={one.prefetch_count} text={whole(one.prefetch_count)} />,
  },
  {
    key: "unacked",
    title: "Unacked",
    width: "84px",
    num: true,
    sort: "messages_unacknowledged",
    phone: "",
    show: (one) => <Num value={one.messages_unacknowledged} text={whole(one.messages_unacknowledged)} />,
  },
  {
    key: "unconfirmed",
    title: "Unconfirmed",
    width: "104px",
    num: true,
    sort: "messages_unconfirmed",
    optional: true,
    show: (one) => <Num value={one.messages_unconfirmed} text={whole(one.messages_unconfirmed)} />,
  },
  {
    key: "publish",
    title: "Publishes/s",
    width: "96px",
    num: true,
    sort: "message_stats.publish_details.rate",
    show: (one) => <Rate value={rateOf(one.message_stats, "publish")} />,
  },
  {
    key: "deliver",
    title: "Delivers/s",
    width: "92px",
    num: true,
    sort: "message_stats.deliver_get_details.rate",
    show: (one) => <Rate value={rateOf(one.message_stats, "deliver_get")} />,
  },
  {
    key: "ack",
    title: "Acks/s",
    width: "80px",
    num: true,
    sort: "message_stats.ack_details.rate",
    show: (one) => <Rate value={rateOf(one.message_stats, "ack")} />,
  },
];

export function Channels(): JSX.Element {
  const asked = askedOf("name");
  const address = scope.value === undefined ? "api/channels" : path("vhosts", scope.value, "channels");
  const rows = useRemoteRows<Channel>(address, asked);
  return (
    <List title="Channels" total={rows.total}>
      <Grid
        id="channels"
        label="Channels"
        rows={rows}
        asked={asked}
        columns={[CHANNELS[0] as Column<Channel>, vhostColumn<Channel>(), ...CHANNELS.slice(1)]}
        keyOf={(one) => one.name}
        nameOf={(one) => one.name}
        href={(one) => to("channels", one.name)}
        empty={<Empty icon="channel" title="There are no channels" />}
      />
    </List>
  );
}

export const CONSUMERS: Column<Consumer>[] = [
  {
    key: "tag",
    title: "Consumer",
    sort: "consumer_tag",
    phone: "",
    show: (one) => <Name text={one.consumer_tag} href={to("channels", one.channel_details.name)} />,
  },
  {
    key: "queue",
    title: "Queue",
    sort: "queue.name",
    phone: "l2",
    show: (one) => <Name text={one.queue.name} href={toWith(["queues", one.queue.vhost, one.queue.name], {})} />,
  },
  {
    key: "address",
    title: "Address",
    width: "150px",
    narrow: true,
    show: (one) => <code class="soft">{`${one.channel_details.peer_host}:${one.channel_details.peer_port}`}</code>,
  },
  {
    key: "state",
    title: "State",
    width: "120px",
    show: (one) => <Pill kind={one.active ? "" : "hold"}>{one.activity_status.replace(/_/g, " ")}</Pill>,
  },
  {
    key: "ack",
    title: "Acknowledges",
    width: "112px",
    show: (one) => (one.ack_required ? "yes" : <Chip>no-ack</Chip>),
  },
  {
    key: "exclusive",
    title: "Exclusive",
    width: "88px",
    optional: true,
    show: (one) => (one.exclusive ? "yes" : "no"),
  },
  {
    key: "prefetch",
    title: "Prefetch",
    width: "88px",
    num: true,
    sort: "prefetch_count",
    phone: "",
    show: (one) => <Num value={one.prefetch_count} text={whole(one.prefetch_count)} />,
  },
];

export const consumerKey = (one: Consumer): string => `${one.channel_details.name}\n${one.consumer_tag}`;

export function Consumers(): JSX.Element {
  const asked = askedOf("");
  const rows = useRemoteRows<Consumer>(listed("consumers"), asked);
  return (
    <List title="Consumers" total={rows.total}>
      <Grid
        id="consumers"
        label="Consumers"
        filterLabel="Filter by tag"
        rows={rows}
        asked={asked}
        columns={CONSUMERS}
        keyOf={consumerKey}
        nameOf={(one) => one.consumer_tag}
        empty={<Empty icon="consumer" title="Nobody consumes" />}
      />
    </List>
  );
}
