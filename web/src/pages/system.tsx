// The nodes, the log, and the definitions.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, get, inWords, path, post } from "../lib/api";
import { bytes, clock, duration, iso, percent, plural, whole } from "../lib/format";
import { updating } from "../lib/live";
import { place, scope, setQuery, to } from "../lib/route";
import { useGet, useSettled } from "../lib/use";
import { Callout, Card, Choice, Dots, Empty, Facts, Failed, Head, Meter, Shown } from "../ui/basic";
import { Icon } from "../ui/icon";
import { done } from "../ui/toast";
import { type Difference, differences } from "./difference";
import { save } from "./export";
import { type Node, stateOf } from "./overview";

function Gauge({ label, used, all, text }: { label: string; used: number; all: number; text: string }): JSX.Element {
  return (
    <div class="row small gauge">
      <span class="muted">{label}</span>
      <Meter value={percent(used, all)} label={label} />
      <span class="num">{text}</span>
    </div>
  );
}

export function Nodes(): JSX.Element {
  const nodes = useGet<Node[]>("api/nodes");
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title="Nodes"
        sub={
          <Dots
            items={[
              nodes.value && `${nodes.value.filter((one) => one.running).length} of ${nodes.value.length} running`,
            ]}
          />
        }
      />
      <Shown of={nodes} what="The nodes">
        {(list) => (
          <div class="grid">
            {list.map((node) => (
              <section key={node.name} class="card c4">
                <header>
                  <h2 class="cut">
                    <a class="plain" href={to("nodes", node.name)}>
                      {node.name}
                    </a>
                  </h2>
                  {stateOf(node)}
                </header>
                <div class="pad col gauges">
                  <Gauge
                    label="Memory"
                    used={node.mem_used ?? 0}
                    all={node.mem_limit ?? 0}
                    text={`${bytes(node.mem_used ?? 0)} of ${bytes(node.mem_limit ?? 0)}`}
                  />
                  <Gauge
                    label="Disk"
                    used={node.disk_free_limit ?? 0}
                    all={node.disk_free ?? 0}
                    text={`${bytes(node.disk_free ?? 0)} free`}
                  />
                  <Gauge
                    label="Files"
                    used={node.fd_used ?? 0}
                    all={node.fd_total ?? 0}
                    text={`${whole(node.fd_used ?? 0)} of ${whole(node.fd_total ?? 0)}`}
                  />
                  <Gauge
                    label="Sockets"
                    used={node.sockets_used ?? 0}
                    all={node.sockets_total ?? 0}
                    text={`${whole(node.sockets_used ?? 0)} of ${whole(node.sockets_total ?? 0)}`}
                  />
                  <div class="row small muted last">
                    <span>up {duration(node.uptime ?? 0)}</span>
                    <span class="grow" />
                    <span>{plural(node.processors ?? 1, "processor")}</span>
                  </div>
                </div>
              </section>
            ))}
          </div>
        )}
      </Shown>
    </main>
  );
}

interface FullNode extends Node {
  memory?: Record<string, number | string | Record<string, number>>;
  applications: { name: string; description: string; version: string }[];
  db_dir: string;
  os_pid: string;
  contexts: { description: string; ip: string; port: string }[];
}

export function NodePage({ name }: { name: string }): JSX.Element {
  const node = useGet<FullNode>(path("nodes", name), { memory: "true" });
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title={name}
        copy={name}
        sub={node.value && <Dots items={[`up ${duration(node.value.uptime ?? 0)}`, `process ${node.value.os_pid}`]} />}
      />
      <Shown of={node} what="The node">
        {(one) => {
          const parts = Object.entries(one.memory ?? {}).filter(
            (pair): pair is [string, number] => typeof pair[1] === "number" && pair[1] > 0,
          );
          const total = one.mem_used ?? 1;
          return (
            <div class="grid">
              <Card class="c6" title="Memory" note={`${bytes(one.mem_used ?? 0)} of ${bytes(one.mem_limit ?? 0)}`}>
                <div class="pad col gauges">
                  {parts
                    .sort((a, b) => b[1] - a[1])
                    .map(([part, value]) => (
                      <div key={part} class="row small gauge">
                        <span class="muted">{part.replace(/_/g, " ")}</span>
                        <span class="meter grow in" style={{ "--v": `${percent(value, total)}%` }} />
                        <span class="num">{bytes(value)}</span>
                      </div>
                    ))}
                </div>
              </Card>
              <div class="c6 stack">
                <Card title="Details">
                  <div class="pad">
                    <Facts
                      rows={[
                        ["State", stateOf(one)],
                        ["Data", <code key="d">{one.db_dir}</code>],
                        ["Disk free", `${bytes(one.disk_free ?? 0)}, alarm below ${bytes(one.disk_free_limit ?? 0)}`],
                        ...one.contexts.map((each): [string, string] => [each.description, `${each.ip}:${each.port}`]),
                      ]}
                    />
                  </div>
                </Card>
                <Card title="What runs">
                  <div class="pad">
                    <Facts rows={one.applications.map((each) => [each.description, each.version])} />
                  </div>
                </Card>
              </div>
            </div>
          );
        }}
      </Shown>
    </main>
  );
}

interface Line {
  number: number;
  time: number;
  level: string;
  logger: string;
  text: string;
}

const LEVELS = [
  ["debug", "All"],
  ["info", "Info"],
  ["warning", "Warnings"],
  ["error", "Errors"],
] as const;
const KEPT = 2_000;

export function Log(): JSX.Element {
  const { q = "", level = "info" } = place.value.query;
  const text = useSettled(q);
  const [lines, setLines] = useState<Line[]>([]);
  const [error, setError] = useState<unknown>();
  const last = useRef(0);
  const end = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  useEffect(() => {
    last.current = 0;
    setLines([]);
    const load = async () => {
      try {
        const found = await get<{ lines: Line[]; last: number }>("api/log", { since: last.current, level, text });
        last.current = found.last;
        setError(undefined);
        if (found.lines.length) setLines((before) => [...before, ...found.lines].slice(-KEPT));
      } catch (caught) {
        setError(caught);
      }
    };
    void load();
    const timer = setInterval(() => updating.peek() && void load(), 2_000);
    return () => clearInterval(timer);
  }, [level, text]);
  useEffect(() => {
    if (follow.current) end.current?.scrollIntoView({ block: "end" });
  }, [lines]);
  return (
    <main
      class="main"
      id="main"
      tabIndex={-1}
      onScroll={(event) =>
        (follow.current =
          event.currentTarget.scrollHeight - event.currentTarget.scrollTop - event.currentTarget.clientHeight < 60)
      }
    >
      <Head title="Log" sub={<Dots items={["the last 2,000 lines", "new ones come by themselves"]} />}>
        <Choice
          label="Level"
          options={LEVELS}
          value={level as "debug" | "info" | "warning" | "error"}
          onChange={(value) => setQuery({ level: value === "info" ? undefined : value })}
        />
      </Head>
      <div class="filterbar two">
        <div class="with-icon">
          <Icon name="search" small />
          <input
            class="input"
            data-filter
            aria-label="Filter the log"
            placeholder="Filter the log"
            value={q}
            spellcheck={false}
            onInput={(event) => setQuery({ q: event.currentTarget.value || undefined })}
          />
        </div>
      </div>
      {error !== undefined && <Failed error={error} what="The log" />}
      <section class="card clip log" aria-label="Log" role="log">
        {lines.map((line) => (
          <p
            key={line.number}
            class={line.level === "error" || line.level === "critical" ? "bad" : line.level === "warning" ? "warn" : ""}
          >
            <time title={iso(line.time)}>{clock(line.time)}</time>
            <span class="level">{line.level}</span>
            <span class="soft logger">{line.logger.replace("leveret.", "")}</span>
            <span class="text">{line.text}</span>
          </p>
        ))}
        {!lines.length && error === undefined && <Empty icon="log" title="Nothing was logged that matches" />}
        <div ref={end} />
      </section>
    </main>
  );
}

export function Definitions(): JSX.Element {
  const vhost = scope.value;
  const address = vhost === undefined ? "api/definitions" : path("definitions", vhost);
  const [file, setFile] = useState<{ name: string; text: string } | null>(null);
  const [changes, setChanges] = useState<Difference[] | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const take = async (chosen: File | undefined) => {
    if (!chosen) return;
    setError("");
    setChanges(null);
    const text = await chosen.text();
    setFile({ name: chosen.name, text });
    try {
      const next = JSON.parse(text) as Record<string, unknown>;
      setChanges(differences(await get<Record<string, unknown>>(address), next));
    } catch (caught) {
      setError(caught instanceof SyntaxError ? `${chosen.name} is not JSON.` : inWords(caught));
    }
  };
  const download = async () => {
    try {
      const response = await ask("GET", address);
      save(`definitions-${vhost === undefined ? "all" : vhost.replace(/[^\w-]+/g, "_")}.json`, "application/json", [
        await response.text(),
      ]);
    } catch (caught) {
      setError(inWords(caught));
    }
  };
  const load = async () => {
    if (!file) return;
    setBusy(true);
    try {
      await post(address, JSON.parse(file.text));
      done("Definitions imported", file.name);
      setFile(null);
      setChanges(null);
    } catch (caught) {
      setError(inWords(caught));
    } finally {
      setBusy(false);
    }
  };
  const added = changes?.filter((one) => one.kind === "added").length ?? 0;
  const changed = changes?.filter((one) => one.kind === "changed").length ?? 0;
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head
        title="Definitions"
        sub={
          <Dots
            items={[vhost === undefined ? "users, virtual hosts and all that is in them" : `what is in ${vhost}`]}
          />
        }
      >
        <button type="button" class="btn" onClick={() => void download()}>
          <Icon name="download" />
          Export
        </button>
        <label class="btn primary file">
          <Icon name="upload" />
          Import…
          <input
            type="file"
            class="hidden-text"
            accept=".json"
            onChange={(event) => void take(event.currentTarget.files?.[0])}
          />
        </label>
      </Head>
      {error && (
        <Callout kind="bad" icon="alert" title="Not imported">
          {error}
        </Callout>
      )}
      {changes && file ? (
        <section class="card clip" aria-label="What the import changes">
          <header>
            <h2>
              {file.name}: {plural(added, "thing")} added, {whole(changed)} changed
            </h2>
            <span class="muted">What is not in the file stays as it is</span>
          </header>
          {changes.length ? (
            <ul class="diff">
              {changes.slice(0, 500).map((one) => (
                <li key={`${one.section}/${one.name}`}>
                  <span class={`chip ${one.kind === "added" ? "good" : "warn"}`}>{one.kind}</span>
                  <span class="soft">{one.section.replace(/_/g, " ")}</span>
                  <span class="strong cut">{one.name}</span>
                  <pre class="code" tabIndex={0} aria-label={`What changes of ${one.name}`}>
                    {one.before && <span class="l del">{one.before}</span>}
                    <span class="l add">{one.after}</span>
                  </pre>
                </li>
              ))}
            </ul>
          ) : (
            <Empty icon="check" title="Everything in it is here already" />
          )}
          <div class="tfoot tall">
            {changes.length > 500 && <span>and {whole(changes.length - 500)} more</span>}
            <span class="grow" />
            <button type="button" class="btn" onClick={() => setFile(null)}>
              Cancel
            </button>
            <button type="button" class="btn primary" disabled={busy || !changes.length} onClick={() => void load()}>
              Import {plural(changes.length, "change")}
            </button>
          </div>
        </section>
      ) : (
        !error && (
          <Card>
            <Empty icon="definitions" title="Definitions as RabbitMQ writes them">
              <p>
                Export what is defined here as a file, or choose one to import: what it would add and change is shown
                first. All of a file is taken, or nothing.
              </p>
            </Empty>
          </Card>
        )
      )}
    </main>
  );
}
