// Which page an address asks for.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { place, to } from "../lib/route";
import { Empty } from "../ui/basic";
import { Bindings, Channels, Connections, Consumers, Exchanges } from "./lists";
import { Overview } from "./overview";
import { Queues } from "./queues";

type Make = (parts: string[]) => JSX.Element | null;

const PAGES: Record<string, Make> = {
  overview: () => <Overview />,
  queues: () => <Queues />,
  exchanges: () => <Exchanges />,
  bindings: () => <Bindings />,
  connections: () => <Connections />,
  channels: () => <Channels />,
  consumers: () => <Consumers />,
};

export function Page(): JSX.Element {
  const { parts } = place.value;
  const [first = "overview", ...rest] = parts;
  const name = rest[rest.length - 1];
  useEffect(() => {
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
