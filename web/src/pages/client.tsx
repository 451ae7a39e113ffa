// One connection, and one channel.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { path, remove } from "../lib/api";
import { bytes, duration, iso, rate, shown, whole } from "../lib/format";
import { go, to, toWith } from "../lib/route";
import { asked, OBJECT_RANGES, rates, refreshMs, seconds } from "../lib/samples";
import { isAdministrator, session } from "../lib/session";
import { type Channel, type Connection, detailsOf, rateOf } from "../lib/types";
import { useGet } from "../lib/use";
import { Card, Chip, Dots, Empty, Facts, Head, Name, Pill, Shown, Stat } from "../ui/basic";
import { Chart } from "../ui/chart";
import { confirmDestruction } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { exchangeHref } from "./lists";
import { useRange } from "./overview";

export function ConnectionPage({ name }: { name: string }): JSX.Element {
  const [range, choice] = useRange(OBJECT_RANGES);
  const found = useGet<Connection>(path("connections", name), asked(range, ["data_rates"]), refreshMs(range));
  const channels = useGet<Channel[]>(path("connections", name, "channels"));
  const data = useMemo(() => rates([found.value?.recv_oct_details, found.value?.send_oct_details]), [found.value]);
  const one = found.value;
  const mayClose = one !== undefined && (isAdministrator.value || one.user === session.value?.name);
  const close = () =>
    confirmDestruction({
      title: "Close this connection?",
      verb: "Close connection",
      what: [{ name, loss: `${whole(one?.channels ?? 0)} channels` }],
      note: "Its client is told why. What it has not acknowledged goes back to its queues.",
      action: async () => {
        await remove(path("connections", name), { "X-Reason": "Closed on the web page" });
        go(to("connections"));
      },
      doneText: "Connection closed",
    });
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title={one?.user_provided_name || name}
        copy={name}
        sub={
          one && (
            <>
              <Chip>{one.protocol}</Chip>
              {one.ssl && <Chip>TLS</Chip>}
              <Dots
                items={[
                  one.user_provided_name && name,
                  `user ${one.user}`,
                  `vhost ${one.vhost}`,
                  `connected for ${duration(Date.now() - one.connected_at)}`,
                ]}
              />
            </>
          )
        }
      >
        {mayClose && (
          <button type="button" class="btn danger" onClick={close}>
            <Icon name="x" />
            Close…
          </button>
        )}
      </Head>
      <Shown of={found} what="The connection">
        {(connection) => (
          <>
            <div class="stats">
              <Stat
                label="State"
                value={connection.state}
                note={connection.send_pend ? `${bytes(connection.send_pend)} not yet read by it` : "nothing waits"}
              />
              <Stat
                label="From client"
                color="in"
                value={bytes(connection.recv_oct_details?.rate ?? 0)}
                unit="/s"
                note={`${bytes(connection.recv_oct)} in all`}
              />
              <Stat
                label="To client"
                color="out"
                value={bytes(connection.send_oct_details?.rate ?? 0)}
                unit="/s"
                note={`${bytes(connection.send_oct)} in all`}
              />
              <Stat label="Channels" value={whole(connection.channels)} note={`of ${whole(connection.channel_max)}`} />
            </div>
            <div class="grid">
              <div class="c8 stack">
                <Card title="Data" note={choice}>
                  <Chart
                    series={[
                      { label: "From client", color: "in" },
                      { label: "To client", color: "out" },
                    ]}
                    data={data}
                    span={seconds(range)}
                    text={(value) => `${bytes(value)}/s`}
                    label={`${bytes(connection.recv_oct_details?.rate ?? 0)} from the client and ${bytes(connection.send_oct_details?.rate ?? 0)} to it a second.`}
                  />
                </Card>
                <Card title="Channels" class="clip">
                  <Shown of={channels} what="The channels">
                    {(list) => <ChannelTable list={list} />}
                  </Shown>
                </Card>
              </div>
              <div class="c4 stack">
                <Card title="Details">
                  <div class="pad">
                    <Facts
                      rows={[
                        ["Address", <code key="a">{`${connection.peer_host}:${connection.peer_port}`}</code>],
                        ["Listener", <code key="l">{`${connection.host}:${connection.port}`}</code>],
                        ["Login", connection.auth_mechanism],
                        ["Heartbeat", connection.timeout ? `${connection.timeout} s` : "off"],
                        ["Frame", bytes(connection.frame_max)],
                        [
                          "Since",
                          <span key="s" title={iso(connection.connected_at)}>
                            {duration(Date.now() - connection.connected_at)}
                          </span>,
                        ],
                        ["Node", connection.node],
                      ]}
                    />
                  </div>
                </Card>
                <Card title="Client properties">
                  <div class="pad">
                    <Facts
                      rows={Object.entries(connection.client_properties).map(([key, value]) => [
                        <code key={key}>{key}</code>,
                        shown(value),
                      ])}
                    />
                  </div>
                </Card>
              </div>
            </div>
          </>
        )}
      </Shown>
    </main>
  );
}

function ChannelTable({ list }: { list: Channel[] }): JSX.Element {
  if (!list.length) return <Empty icon="channel" title="It has no channels" />;
  return (
    <table class="table list">
      <thead>
        <tr>
          <th>Channel</th>
          <th>State</th>
          <th class="num">Prefetch</th>
          <th class="num">Unacked</th>
          <th class="num">Publishes/s</th>
          <th class="num">Delivers/s</th>
        </tr>
      </thead>
      <tbody>
        {list.map((one) => (
          <tr key={one.name}>
            <td>
              <Name text={`Channel ${one.number}`} href={to("channels", one.name)} />
            </td>
            <td class="l2">
              <Pill>{one.idle_since ? "idle" : one.state}</Pill>
            </td>
            <td class="num gone">{whole(one.prefetch_count)}</td>
            <td class="num">{whole(one.messages_unacknowledged)}</td>
            <td class="num gone">{rate(rateOf(one.message_stats, "publish"))}</td>
            <td class="num gone">{rate(rateOf(one.message_stats, "deliver_get"))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function ChannelPage({ name }: { name: string }): JSX.Element {
  const [range, choice] = useRange(OBJECT_RANGES);
  const found = useGet<Channel>(path("channels", name), asked(range, ["msg_rates"]), refreshMs(range));
  const data = useMemo(
    () =>
      rates(["publish", "deliver_get", "ack", "redeliver"].map((one) => detailsOf(found.value?.message_stats, one))),
    [found.value],
  );
  const one = found.value;
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title={name}
        copy={name}
        sub={
          one && (
            <>
              {one.confirm && <Chip>confirm</Chip>}
              {one.transactional && <Chip>transactional</Chip>}
              <Dots items={[`user ${one.user}`, `vhost ${one.vhost}`]} />
            </>
          )
        }
      >
        {one && (
          <a class="btn" href={to("connections", one.connection_details.name)}>
            <Icon name="connection" />
            Connection
          </a>
        )}
      </Head>
      <Shown of={found} what="The channel">
        {(channel) => (
          <>
            <div class="stats">
              <Stat
                label="Unacked"
                color="unacked"
                value={whole(channel.messages_unacknowledged)}
                note={channel.prefetch_count ? `of ${whole(channel.prefetch_count)} a consumer` : "no prefetch limit"}
              />
              <Stat
                label="Unconfirmed"
                value={whole(channel.messages_unconfirmed)}
                note={channel.confirm ? "not yet on disk" : "without confirms"}
              />
              <Stat label="Published" color="in" value={rate(rateOf(channel.message_stats, "publish"))} unit="/s" />
              <Stat
                label="Delivered"
                color="out"
                value={rate(rateOf(channel.message_stats, "deliver_get"))}
                unit="/s"
                note={`acked ${rate(rateOf(channel.message_stats, "ack"))}/s`}
              />
            </div>
            <div class="grid">
              <div class="c8 stack">
                <Card title="Message rates" note={choice}>
                  <Chart
                    series={[
                      { label: "Published", color: "in" },
                      { label: "Delivered", color: "out" },
                      { label: "Acked", color: "ack", dashed: true },
                      { label: "Redelivered", color: "redelivered" },
                    ]}
                    data={data}
                    span={seconds(range)}
                    text={rate}
                    label={`${rate(rateOf(channel.message_stats, "publish"))} published and ${rate(rateOf(channel.message_stats, "deliver_get"))} delivered a second.`}
                  />
                </Card>
                <Card title="Consumers" class="clip">
                  {channel.consumer_details?.length ? (
                    <table class="table list">
                      <thead>
                        <tr>
                          <th>Consumer</th>
                          <th>Queue</th>
                          <th class="num">Prefetch</th>
                        </tr>
                      </thead>
                      <tbody>
                        {channel.consumer_details.map((each) => (
                          <tr key={each.consumer_tag}>
                            <td>{each.consumer_tag}</td>
                            <td class="l2">
                              <Name
                                text={each.queue.name}
                                href={toWith(["queues", each.queue.vhost, each.queue.name], {})}
                              />
                            </td>
                            <td class="num">{whole(each.prefetch_count)}</td>
                          </tr>
                        ))}
                      </tbody>
                    </table>
                  ) : (
                    <Empty icon="consumer" title="It has no consumers" />
                  )}
                </Card>
              </div>
              <div class="c4 stack">
                <Card title="Publishes to">
                  <div class="pad">
                    {channel.publishes?.length ? (
                      <Facts
                        rows={channel.publishes.map((each) => [
                          <a key="x" href={exchangeHref(each.exchange.vhost, each.exchange.name)}>
                            {each.exchange.name || "(default)"}
                          </a>,
                          `${rate(rateOf(each.stats, "publish"))}/s`,
                        ])}
                      />
                    ) : (
                      <p class="muted">Nothing yet.</p>
                    )}
                  </div>
                </Card>
                <Card title="Takes from">
                  <div class="pad">
                    {channel.deliveries?.length ? (
                      <Facts
                        rows={channel.deliveries.map((each) => [
                          <a key="q" href={toWith(["queues", each.queue.vhost, each.queue.name], {})}>
                            {each.queue.name}
                          </a>,
                          `${rate(rateOf(each.stats, "deliver_get"))}/s`,
                        ])}
                      />
                    ) : (
                      <p class="muted">Nothing yet.</p>
                    )}
                  </div>
                </Card>
              </div>
            </div>
          </>
        )}
      </Shown>
    </main>
  );
}
