// How does it hang together, where does it flow? Laid out by dagre, which is loaded only here.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, path, withQuery } from "../lib/api";
import { plural, rate, whole } from "../lib/format";
import { place, scope, setQuery, to, toWith } from "../lib/route";
import { session } from "../lib/session";
import { type Binding, type Exchange, type Queue, rateOf } from "../lib/types";
import { useSettled } from "../lib/use";
import { Choice, Empty, Failed, Skeleton } from "../ui/basic";
import { Icon } from "../ui/icon";
import { exchangeHref } from "./lists";
import { type Edge, layOut, type Place, type Point } from "./topology-layout";

export interface Vertex {
  id: string;
  kind: "exchange" | "queue";
  name: string;
  note: string;
  state: "" | "warn" | "bad";
  busy: boolean;
}

interface Picture {
  vertices: Vertex[];
  edges: Edge[];
}

const MOST = 400;

const exchangeId = (name: string): string => `x/${name}`;
const queueId = (name: string): string => `q/${name}`;

export function pictureOf(exchanges: Exchange[], queues: Queue[], bindings: Binding[]): Picture {
  const vertices = new Map<string, Vertex>();
  for (const one of exchanges) {
    const flow = rateOf(one.message_stats, "publish_in");
    vertices.set(exchangeId(one.name), {
      id: exchangeId(one.name),
      kind: "exchange",
      name: one.name || "(default)",
      note: `${one.type}, ${rate(flow)}/s`,
      state: "",
      busy: flow > 0,
    });
  }
  for (const one of queues) {
    const unattended = one.messages_ready > 0 && !one.consumers;
    vertices.set(queueId(one.name), {
      id: queueId(one.name),
      kind: "queue",
      name: one.name,
      note: `${whole(one.messages_ready)} ready, ${plural(one.consumers, "consumer")}`,
      state: unattended ? "warn" : "",
      busy: rateOf(one.message_stats, "publish") > 0 || one.messages > 0,
    });
  }
  const edges = new Map<string, Edge>();
  for (const one of bindings) {
    // Every queue is bound to the default exchange; that says nothing.
    if (one.source === "") continue;
    const from = exchangeId(one.source);
    const target = one.destination_type === "queue" ? queueId(one.destination) : exchangeId(one.destination);
    if (!vertices.has(from) || !vertices.has(target)) continue;
    const key = `${from}\n${target}`;
    const known = edges.get(key);
    if (known) known.label = known.label.includes("…") ? known.label : `${known.label}, …`;
    else
      edges.set(key, { from, to: target, label: one.routing_key, rate: flowOf(queues, exchanges, one), dead: false });
  }
  for (const one of queues) {
    const dead = one.arguments["x-dead-letter-exchange"] ?? one.effective_policy_definition?.["dead-letter-exchange"];
    if (typeof dead !== "string") continue;
    const key =
      one.arguments["x-dead-letter-routing-key"] ?? one.effective_policy_definition?.["dead-letter-routing-key"];
    const target = dead === "" && typeof key === "string" ? queueId(key) : exchangeId(dead);
    if (vertices.has(target))
      edges.set(`${queueId(one.name)}\n${target}\ndead`, {
        from: queueId(one.name),
        to: target,
        label: "",
        rate: 0,
        dead: true,
      });
  }
  for (const one of exchanges) {
    const alternate = one.arguments["alternate-exchange"];
    if (typeof alternate === "string" && vertices.has(exchangeId(alternate)))
      edges.set(`${exchangeId(one.name)}\n${exchangeId(alternate)}\nae`, {
        from: exchangeId(one.name),
        to: exchangeId(alternate),
        label: "alternate",
        rate: 0,
        dead: true,
      });
  }
  return { vertices: [...vertices.values()], edges: [...edges.values()] };
}

function flowOf(queues: Queue[], exchanges: Exchange[], one: Binding): number {
  if (one.destination_type === "queue")
    return rateOf(queues.find((queue) => queue.name === one.destination)?.message_stats, "publish");
  return rateOf(exchanges.find((exchange) => exchange.name === one.destination)?.message_stats, "publish_in");
}

/** What is connected to what has this in its name, however far; without the text all that has an edge, or traffic. */
export function connected({ vertices, edges }: Picture, text: string, busyOnly: boolean): Picture {
  const ends = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
  let kept = new Set(
    vertices.filter((one) => ends.has(one.id) || (one.kind === "queue" && !busyOnly)).map((one) => one.id),
  );
  if (text) {
    kept = new Set(vertices.filter((one) => one.name.toLowerCase().includes(text.toLowerCase())).map((one) => one.id));
    for (let before = -1; before !== kept.size; ) {
      before = kept.size;
      for (const edge of edges) {
        if (kept.has(edge.to)) kept.add(edge.from);
      }
    }
    const down = new Set(
      vertices.filter((one) => one.name.toLowerCase().includes(text.toLowerCase())).map((one) => one.id),
    );
    for (let before = -1; before !== down.size; ) {
      before = down.size;
      for (const edge of edges) if (down.has(edge.from)) down.add(edge.to);
    }
    for (const id of down) kept.add(id);
  } else if (busyOnly) {
    const busy = new Set(vertices.filter((one) => one.busy).map((one) => one.id));
    kept = new Set(
      [...kept].filter(
        (id) =>
          busy.has(id) ||
          edges.some((edge) => (edge.from === id && busy.has(edge.to)) || (edge.to === id && busy.has(edge.from))),
      ),
    );
  }
  return {
    vertices: vertices.filter((one) => kept.has(one.id)),
    edges: edges.filter((edge) => kept.has(edge.from) && kept.has(edge.to)),
  };
}

export function Topology(): JSX.Element {
  const vhost = scope.value ?? session.value?.vhosts[0] ?? "/";
  const { q = "", all } = place.value.query;
  const text = useSettled(q);
  const [picture, setPicture] = useState<Picture | null>(null);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let current = true;
    const load = async () => {
      try {
        const [exchanges, queues, bindings] = await Promise.all([
          get<Exchange[]>(path("exchanges", vhost)),
          get<Queue[]>(
            withQuery(path("queues", vhost), {
              columns:
                "name,vhost,messages,messages_ready,consumers,arguments,effective_policy_definition,message_stats",
            }),
          ),
          get<Binding[]>(path("bindings", vhost)),
        ]);
        if (current) setPicture(pictureOf(exchanges, queues, bindings));
        if (current) setError(undefined);
      } catch (caught) {
        if (current) setError(caught);
      }
    };
    void load();
    const timer = setInterval(() => void load(), 10_000);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [vhost]);
  const shown = useMemo(() => (picture ? connected(picture, text, all !== "1") : null), [picture, text, all]);
  return (
    <main class="main full" id="main" tabIndex={-1}>
      <div class="pad-x topo-head">
        <div class="filterbar two">
          <h1 tabIndex={-1}>Topology</h1>
          <div class="with-icon">
            <Icon name="search" small />
            <input
              class="input"
              data-filter
              aria-label="Show only what is connected to"
              placeholder="Show only what is connected to…"
              value={q}
              onInput={(event) => setQuery({ q: event.currentTarget.value || undefined })}
            />
          </div>
          <Choice
            label="Which"
            value={all === "1" ? "all" : "busy"}
            onChange={(value) => setQuery({ all: value === "all" ? "1" : undefined })}
            options={[
              ["busy", "In use"],
              ["all", `All ${whole(picture?.vertices.filter((one) => one.kind === "queue").length ?? 0)}`],
            ]}
          />
          <span class="grow" />
          <span class="row small soft hide-s gap4">
            <span class="muted">vhost {vhost}</span>
            <span class="row">
              <i class="key c-in" />
              in
            </span>
            <span class="row">
              <i class="key thin c-dead" />
              dead letters, alternates
            </span>
            <a href={to("bindings")}>As a list</a>
          </span>
        </div>
      </div>
      {error !== undefined ? (
        <Failed error={error} what="The topology" />
      ) : !shown ? (
        <Skeleton />
      ) : shown.vertices.length === 0 ? (
        <Empty icon="topology" title={q ? "Nothing is called so" : "Nothing is bound yet"}>
          <p>
            {q
              ? "Show all, or search for another name."
              : "When exchanges and queues are bound to each other, they are drawn here."}
          </p>
        </Empty>
      ) : shown.vertices.length > MOST ? (
        <Empty icon="topology" title={`${whole(shown.vertices.length)} are too many for a picture`}>
          <p>Search for an exchange or a queue: only what is connected to it is drawn.</p>
        </Empty>
      ) : (
        <Drawn vhost={vhost} picture={shown} />
      )}
    </main>
  );
}

interface Layout {
  places: Map<string, Place>;
  lines: Map<string, Point[]>;
  width: number;
  height: number;
}

const shapeOf = ({ vertices, edges }: Picture): string =>
  JSON.stringify([vertices.map((one) => one.id), edges.map((one) => [one.from, one.to, one.label])]);

function Drawn({ vhost, picture }: { vhost: string; picture: Picture }): JSX.Element {
  const [layout, setLayout] = useState<Layout | null>(null);
  const [scale, setScale] = useState(1);
  const [at, setAt] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const shape = shapeOf(picture);
  useEffect(() => {
    let current = true;
    void layOut(picture.vertices, picture.edges).then((found) => current && setLayout(found));
    return () => {
      current = false;
    };
  }, [shape]);
  if (!layout) return <Skeleton />;
  const near = new Set(
    at === null
      ? []
      : [
          at,
          ...picture.edges.filter((edge) => edge.from === at || edge.to === at).flatMap((edge) => [edge.from, edge.to]),
        ],
  );
  const fit = () =>
    setScale(
      Math.min(
        1,
        (box.current?.clientWidth ?? layout.width) / layout.width,
        ((box.current?.clientHeight ?? layout.height) - 20) / layout.height,
      ),
    );
  const href = (one: Vertex) =>
    one.kind === "queue"
      ? toWith(["queues", vhost, one.name], {})
      : exchangeHref(vhost, one.name === "(default)" ? "" : one.name);
  return (
    <div
      class="topo"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label={`Exchanges and queues of ${vhost}: ${picture.vertices.length} and ${picture.edges.length} bindings. The same is listed under Bindings.`}
    >
      <svg
        class="drawn"
        width={layout.width * scale}
        height={layout.height * scale}
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        aria-label="Topology"
        role="group"
      >
        {picture.edges.map((edge) => {
          const points = layout.lines.get(`${edge.from}\n${edge.to}\n${edge.dead}`);
          if (!points) return null;
          const away = at !== null && edge.from !== at && edge.to !== at;
          const d = curve(points);
          const width = edge.rate > 0 ? 1.5 + Math.log10(1 + edge.rate) * 1.6 : 1;
          const middle = points[Math.floor(points.length / 2)];
          return (
            <g key={`${edge.from}\n${edge.to}\n${edge.dead}`} class={away ? "away" : ""}>
              <path
                class={edge.dead ? "edge dead c-dead" : edge.rate > 0 ? "edge c-in" : "edge idle"}
                style={{ strokeWidth: width }}
                d={d}
              />
              {edge.rate > 0 && !edge.dead && <path class="flow c-in" d={d} />}
              {edge.label && middle && (
                <text class="m" x={middle.x} y={middle.y - 4} text-anchor="middle">
                  {edge.label.length > 24 ? `${edge.label.slice(0, 23)}…` : edge.label}
                </text>
              )}
            </g>
          );
        })}
        {picture.vertices.map((one) => {
          const spot = layout.places.get(one.id);
          if (!spot) return null;
          const { x, y, width, height } = spot;
          return (
            <a
              key={one.id}
              href={href(one)}
              class={at !== null && !near.has(one.id) ? "away" : ""}
              onMouseEnter={() => setAt(one.id)}
              onMouseLeave={() => setAt(null)}
              onFocus={() => setAt(one.id)}
              onBlur={() => setAt(null)}
            >
              <title>{one.name}</title>
              <rect
                class={`node ${one.kind === "exchange" ? "x" : ""} ${one.id === at ? "on" : ""} ${one.state}`}
                x={x - width / 2}
                y={y - height / 2}
                width={width}
                height={height}
                rx={one.kind === "exchange" ? height / 2 : 7}
              />
              <text class="b" x={x - width / 2 + 16} y={y - 4}>
                {one.name.length > 26 ? `${one.name.slice(0, 14)}…${one.name.slice(-11)}` : one.name}
              </text>
              <text class={`t2 ${one.state}`} x={x - width / 2 + 16} y={y + 13}>
                {one.note}
              </text>
            </a>
          );
        })}
      </svg>
      <div class="float zoom">
        <button
          type="button"
          class="btn quiet s icon"
          aria-label="Zoom out"
          onClick={() => setScale(Math.max(0.2, scale / 1.25))}
        >
          <Icon name="minus" />
        </button>
        <span class="small soft percent">{Math.round(scale * 100)} %</span>
        <button
          type="button"
          class="btn quiet s icon"
          aria-label="Zoom in"
          onClick={() => setScale(Math.min(3, scale * 1.25))}
        >
          <Icon name="plus" />
        </button>
        <button type="button" class="btn quiet s icon" aria-label="Fit" onClick={fit}>
          <Icon name="fit" />
        </button>
      </div>
    </div>
  );
}

function curve(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let d = `M${first.x} ${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    d += `C${middle} ${before.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    before = point;
  }
  return d;
}
