// What stands around every page: where one can go, where one is, whether what is shown is live, and who is signed in.

import { computed } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clock, whole } from "../lib/format";
import { counts, lostSince, paused, retryAt, togglePause, tryNow } from "../lib/live";
import { place, scope, setQuery, to, written } from "../lib/route";
import { isAdministrator, isMonitor, isPolicymaker, session, signOut } from "../lib/session";
import { next } from "../lib/theme";
import { attentionCount } from "../pages/attention";
import { useTrap } from "./dialog";
import { Icon, type IconName, Logo } from "./icon";
import { Menu } from "./menu";
import { openPalette } from "./palette";

interface Entry {
  to: string;
  text: string;
  icon: IconName;
  count?: number | undefined;
  kind?: string;
}

const groups = computed((): [string, Entry[]][] => {
  const totals = scope.value ? undefined : counts.value?.object_totals;
  const administrator = isAdministrator.value;
  const found: [string, Entry[]][] = [
    ["", [{ to: "overview", text: "Overview", icon: "overview" }]],
    [
      "Messaging",
      [
        { to: "queues", text: "Queues", icon: "queue", count: totals?.queues },
        { to: "exchanges", text: "Exchanges", icon: "exchange", count: totals?.exchanges },
        { to: "bindings", text: "Bindings", icon: "binding" },
        { to: "topology", text: "Topology", icon: "topology" },
        { to: "dead-letters", text: "Dead letters", icon: "dead" },
      ],
    ],
    [
      "Clients",
      [
        { to: "connections", text: "Connections", icon: "connection", count: totals?.connections },
        { to: "channels", text: "Channels", icon: "channel", count: totals?.channels },
        { to: "consumers", text: "Consumers", icon: "consumer", count: totals?.consumers },
      ],
    ],
  ];
  if (isMonitor.value) {
    found.push([
      "Cluster",
      [
        { to: "nodes", text: "Nodes", icon: "node" },
        { to: "log", text: "Log", icon: "log" },
      ],
    ]);
  }
  const admin: Entry[] = [{ to: "policies", text: "Policies", icon: "policy" }];
  if (administrator) admin.push({ to: "users", text: "Users", icon: "user" });
  admin.push({ to: "vhosts", text: "Virtual hosts", icon: "vhost" });
  if (isMonitor.value || isPolicymaker.value) admin.push({ to: "shovels", text: "Shovels", icon: "shovel" });
  if (administrator) admin.push({ to: "limits", text: "Limits", icon: "stuck" });
  if (administrator) admin.push({ to: "definitions", text: "Definitions", icon: "definitions" });
  admin.push({ to: "features", text: "Features", icon: "feature" });
  found.push(["Admin", admin]);
  return found;
});

export const entries = computed(() => groups.value.flatMap(([, list]) => list));

export const here = computed(() => place.value.parts[0] ?? "overview");

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
  const [sheet, setSheet] = useState(false);
  const lost = lostSince.value > 0;
  useEffect(() => setSheet(false), [place.value]);
  return (
    <div class={lost ? "app lost" : "app"}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to content
      </a>
      <aside class="side">
        <Side />
      </aside>
      <Top openSheet={() => setSheet(true)} />
      <div class="middle">
        {lost && <Banner />}
        {children}
      </div>
      <PhoneBar openSheet={() => setSheet(true)} />
      {sheet && <Sheet close={() => setSheet(false)} />}
    </div>
  );
}

function Side(): JSX.Element {
  const who = session.value;
  return (
    <>
      <a class="brand" href={to("overview")}>
        <Logo />
        Leveret
      </a>
      <Scope />
      <nav class="nav" aria-label="Main">
        {groups.value.map(([title, list]) => (
          <>
            {title && <h2>{title}</h2>}
            {list.map((entry) => (
              <a key={entry.to} href={to(entry.to)} aria-current={here.value === entry.to ? "page" : undefined}>
                <Icon name={entry.icon} />
                {entry.text} {entry.count !== undefined && <b class={entry.kind ?? ""}>{whole(entry.count)}</b>}
              </a>
            ))}
          </>
        ))}
      </nav>
      <footer>
        <span class="cut">{who?.cluster_name}</span>
        <span>{who?.version}</span>
      </footer>
    </>
  );
}

/** Which vhost the lists show. */
function Scope(): JSX.Element {
  const vhosts = session.value?.vhosts ?? [];
  return (
    <label class="scope">
      <span class="muted">vhost</span>
      <select
        value={scope.value ?? ""}
        onChange={(event) => {
          const vhost = event.currentTarget.value || undefined;
          // What is shown of one object is in one vhost: its list is gone to.
          if (place.value.parts.length > 1) location.hash = written([here.value], { vhost });
          else setQuery({ vhost }, false);
        }}
      >
        <option value="">all</option>
        {vhosts.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Top({ openSheet }: { openSheet: () => void }): JSX.Element {
  const who = session.value;
  return (
    <header class="top">
      <button type="button" class="btn quiet icon menu-btn" aria-label="Menu" onClick={openSheet}>
        <Icon name="menu" />
      </button>
      <Crumbs />
      <span class="grow" />
      <button type="button" class="find" onClick={openPalette} aria-label="Find or do… Ctrl K">
        <Icon name="search" small />
        <span class="grow">Find or do…</span>
        <span class="kbd">Ctrl K</span>
      </button>
      <Live />
      <button type="button" class="btn quiet icon s hide-s" aria-label="Change theme" onClick={next}>
        <Icon name="sun" />
      </button>
      <Menu
        label={`Signed in as ${who?.name ?? ""}`}
        class="avatar"
        items={[
          { text: "Change theme", icon: "sun", act: next },
          { text: "Sign out", icon: "signout", act: () => void signOut() },
        ]}
      >
        <span class="hidden-text">Signed in as {who?.name}</span>
        <span aria-hidden="true">{(who?.name ?? "").slice(0, 2).toUpperCase()}</span>
      </Menu>
    </header>
  );
}

function Crumbs(): JSX.Element {
  const { parts } = place.value;
  const entry = entries.value.find((one) => one.to === here.value);
  const text = entry?.text ?? "Leveret";
  const name = parts[parts.length - 1] ?? "";
  return (
    <nav class="crumbs" aria-label="You are here">
      {parts.length > 1 ? (
        <>
          <a href={to(here.value)}>{text}</a>
          <span aria-hidden="true">/</span>
          <span class="cut">{name === "amq.default" ? "(default)" : name}</span>
        </>
      ) : (
        <span class="cut">{text}</span>
      )}
    </nav>
  );
}

function Live(): JSX.Element {
  if (lostSince.value) {
    return (
      <button type="button" class="live lost" onClick={tryNow}>
        <i />
        Not connected
      </button>
    );
  }
  return paused.value ? (
    <button type="button" class="live off" title="Press . to go on" onClick={togglePause}>
      <i />
      Paused at {clock(paused.value)}
    </button>
  ) : (
    <button type="button" class="live" title="Updates every second. Press . to pause" onClick={togglePause}>
      <i />
      Live
    </button>
  );
}

/** The broker does not answer: since when, and when it is tried again. */
export function Banner(): JSX.Element {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const wait = Math.max(0, Math.ceil((retryAt.value - now) / 1000));
  return (
    <div class="banner" role="alert">
      <Icon name="alert" />
      <span>
        No connection since {clock(lostSince.value)}. Numbers are old.{" "}
        <span aria-hidden="true">Trying again {wait ? `in ${wait} s` : "now"}.</span>
      </span>
      <button type="button" class="btn s" onClick={tryNow}>
        Try now
      </button>
    </div>
  );
}

function PhoneBar({ openSheet }: { openSheet: () => void }): JSX.Element {
  const attention = attentionCount.value;
  const tabs = ["overview", "queues", "dead-letters", isMonitor.value ? "nodes" : "exchanges"];
  const shown = entries.value.filter((entry) => tabs.includes(entry.to));
  return (
    <nav class="tabbar" aria-label="Main, phone">
      {shown.map((entry) => (
        <a key={entry.to} href={to(entry.to)} aria-current={here.value === entry.to ? "page" : undefined}>
          <Icon name={entry.icon} />
          {entry.text}
          {entry.to === "overview" && attention > 0 && <b>{attention}</b>}
        </a>
      ))}
      <button type="button" onClick={openSheet}>
        <Icon name="menu" />
        More
      </button>
    </nav>
  );
}

function Sheet({ close }: { close: () => void }): JSX.Element {
  const { box, onKeyDown } = useTrap(close);
  return (
    <div class="scrim sheet-scrim" onMouseDown={(event) => event.target === event.currentTarget && close()}>
      <div class="sheet" ref={box} role="dialog" aria-modal="true" aria-label="Menu" onKeyDown={onKeyDown}>
        <Side />
      </div>
    </div>
  );
}
