// Which page an address asks for.

import type { JSX } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { place, to } from "../lib/route";
import { Empty } from "../ui/basic";
import { Features, Limits, Shovels, UserPage, Users, Vhosts } from "./admin";
import { ChannelPage, ConnectionPage } from "./client";
import { DeadLetters } from "./dead-letters";
import { ExchangePage } from "./exchange";
import { Bindings, Channels, Connections, Consumers, Exchanges } from "./lists";
import { Overview } from "./overview";
import { Policies } from "./policies";
import { QueuePage } from "./queue";
import { Queues } from "./queues";
import { Definitions, Log, NodePage, Nodes } from "./system";
import { Topology } from "./topology";

type Make = (parts: string[]) => JSX.Element | null;

const PAGES: Record<string, Make> = {
  overview: () => <Overview />,
  queues: ([vhost, name]) =>
    vhost !== undefined && name !== undefined ? <QueuePage vhost={vhost} name={name} /> : <Queues />,
  exchanges: ([vhost, name]) =>
    vhost !== undefined && name !== undefined ? <ExchangePage vhost={vhost} name={name} /> : <Exchanges />,
  bindings: () => <Bindings />,
  topology: () => <Topology />,
  "dead-letters": ([vhost, name]) => <DeadLetters vhost={vhost} name={name} />,
  connections: ([name]) => (name === undefined ? <Connections /> : <ConnectionPage name={name} />),
  channels: ([name]) => (name === undefined ? <Channels /> : <ChannelPage name={name} />),
  consumers: () => <Consumers />,
  nodes: ([name]) => (name === undefined ? <Nodes /> : <NodePage name={name} />),
  log: () => <Log />,
  policies: () => <Policies />,
  users: ([name]) => (name === undefined ? <Users /> : <UserPage name={name} />),
  vhosts: () => <Vhosts />,
  shovels: () => <Shovels />,
  limits: () => <Limits />,
  definitions: () => <Definitions />,
  features: () => <Features />,
};

export function Page(): JSX.Element {
  const { parts } = place.value;
  const [first = "overview", ...rest] = parts;
  const name = rest[rest.length - 1];
  // With the page, not after it is painted: what is opened in between keeps its focus.
  useLayoutEffect(() => {
    const title = first.charAt(0).toUpperCase() + first.slice(1).replace("-", " ");
    document.title = `${name ?? title} · Leveret`;
    // Whoever reads by ear hears where they have come.
    document.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
  }, [first, name]);
  return PAGES[first]?.(rest) ?? <NotThere />;
}

function NotThere(): JSX.Element {
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Empty icon="search" title="There is no such page">
        <a class="btn s" href={to("overview")}>
          Overview
        </a>
      </Empty>
    </main>
  );
}
