// Find or do: objects first, then actions; ranked by prefix, the beginning of a word, and anywhere.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, type Query } from "../lib/api";
import { whole } from "../lib/format";
import { go, scope, to, toWith } from "../lib/route";
import { isAdministrator, isMonitor } from "../lib/session";
import { next } from "../lib/theme";
import { useSettled } from "../lib/use";
import { useTrap } from "./dialog";
import { Icon, type IconName } from "./icon";
import { entries } from "./shell";

const open = signal(false);
export const openPalette = (): void => {
  open.value = true;
};
export const paletteOpen = (): boolean => open.peek();

interface Found {
  group: string;
  icon: IconName;
  text: string;
  end?: string;
  act: () => void;
  href?: string;
}

const A_GROUP = 8;

export function rank(text: string, asked: string): number {
  const name = text.toLowerCase();
  const wanted = asked.toLowerCase();
  if (name.startsWith(wanted)) return 0;
  const at = name.indexOf(wanted);
  if (at < 0) return 3;
  return /[^a-z0-9]/.test(name[at - 1] ?? "") ? 1 : 2;
}

const best = <T,>(list: T[], text: (one: T) => string, asked: string): T[] =>
  list
    .filter((one) => rank(text(one), asked) < 3)
    .sort((a, b) => rank(text(a), asked) - rank(text(b), asked))
    .slice(0, A_GROUP);

export function Palette(): JSX.Element | null {
  return open.value ? <Box /> : null;
}

interface Named {
  name: string;
  vhost: string;
  messages?: number;
  user?: string;
}

async function objects(asked: string): Promise<Found[]> {
  const query: Query = { name: asked, page: 1, page_size: 50 };
  const vhost = scope.value;
  const list = async (kind: string, columns: string) =>
    (
      await get<{ items: Named[] }>(vhost && kind !== "connections" ? path(kind, vhost) : path(kind), {
        ...query,
        columns,
      })
    ).items;
  const [queues, exchanges, connections] = await Promise.all([
    list("queues", "name,vhost,messages"),
    list("exchanges", "name,vhost"),
    list("connections", "name,vhost,user"),
  ]);
  const linked =
    (group: string, icon: IconName, kind: string, ends: (one: Named) => string) =>
    (one: Named): Found => {
      const href = kind === "connections" ? to(kind, one.name) : to(kind, one.vhost, one.name);
      return { group, icon, text: one.name || "(default)", end: ends(one), href, act: () => go(href) };
    };
  const name = (one: Named) => one.name;
  return [
    ...best(queues, name, asked).map(linked("Queues", "queue", "queues", (one) => whole(one.messages ?? 0))),
    ...best(exchanges, name, asked).map(linked("Exchanges", "exchange", "exchanges", (one) => one.vhost)),
    ...best(connections, name, asked).map(linked("Connections", "connection", "connections", (one) => one.user ?? "")),
  ];
}

function actions(asked: string): Found[] {
  const found: Found[] = entries.value.map((entry) => ({
    group: "Go to",
    icon: entry.icon,
    text: entry.text,
    act: () => go(to(entry.to)),
    href: to(entry.to),
  }));
  const page = (icon: IconName, text: string, address: string): Found => ({
    group: "Do",
    icon,
    text,
    act: () => go(address),
    href: address,
  });
  found.push(
    page("plus", "Declare queue", toWith(["queues"], { new: "1" })),
    page("plus", "Declare exchange", toWith(["exchanges"], { new: "1" })),
  );
  found.push({ group: "Do", icon: "sun", text: "Change theme", act: next });
  if (isAdministrator.value) found.push(page("plus", "Add user", toWith(["users"], { new: "1" })));
  if (isMonitor.value) found.push(page("log", "Follow the log", to("log")));
  return asked ? best(found, (one) => one.text, asked) : found.filter((one) => one.group === "Do");
}

function Box(): JSX.Element {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const [at, setAt] = useState(0);
  const asked = useSettled(text, 120);
  const list = useRef<HTMLDivElement>(null);
  const close = () => {
    open.value = false;
  };
  const { box, onKeyDown } = useTrap(close);
  useEffect(() => {
    let current = true;
    setAt(0);
    setFound(actions(asked));
    if (asked) {
      void objects(asked)
        .then((more) => current && setFound([...more, ...actions(asked), ...pieces(more)]))
        .catch(() => undefined);
    }
    return () => {
      current = false;
    };
  }, [asked]);
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  const choose = (one: Found | undefined, tab = false) => {
    if (!one) return;
    close();
    if (tab && one.href) window.open(one.href, "_blank", "noopener");
    else one.act();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const count = Math.max(1, found.length);
      setAt((at + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[at], event.ctrlKey || event.metaKey);
    } else onKeyDown(event);
  };
  let group = "";
  return (
    <div class="scrim" onMouseDown={(event) => event.target === event.currentTarget && close()}>
      <div class="palette" ref={box} role="dialog" aria-modal="true" aria-label="Find or do" onKeyDown={keys}>
        <div class="ask">
          <Icon name="search" />
          <input
            class="grow"
            aria-label="Find or do"
            placeholder="A name, or what to do"
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-list"
            aria-activedescendant={found.length ? `found-${at}` : undefined}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <span class="kbd">Esc</span>
        </div>
        <div class="found" ref={list} id="palette-list" role="listbox" aria-label="Found">
          {found.map((one, index) => {
            const first = one.group !== group;
            group = one.group;
            return (
              <div key={`${one.group}/${one.text}/${one.end ?? ""}`} role="presentation">
                {first && <h4 role="presentation">{one.group}</h4>}
                <li
                  id={`found-${index}`}
                  role="option"
                  aria-selected={index === at}
                  onMouseDown={(event) => {
                    event.preventDefault();
                    choose(one, event.ctrlKey || event.metaKey);
                  }}
                  onMouseMove={() => index !== at && setAt(index)}
                >
                  <Icon name={one.icon} />
                  <span class="cut">
                    <Marked text={one.text} asked={asked} />
                  </span>
                  <span class="end">{one.end}</span>
                </li>
              </div>
            );
          })}
          {!found.length && <p class="muted none">Nothing is called so.</p>}
        </div>
        <footer>
          <span>
            <span class="kbd">↑</span>
            <span class="kbd">↓</span> choose
          </span>
          <span>
            <span class="kbd">↵</span> open
          </span>
          <span class="hide-s">
            <span class="kbd">Ctrl ↵</span> new tab
          </span>
        </footer>
      </div>
    </div>
  );
}

/** What can be done with the queue that fits best. */
function pieces(found: Found[]): Found[] {
  const queue = found.find((one) => one.group === "Queues");
  if (!queue?.href) return [];
  const [address = ""] = queue.href.split("?");
  const tab = (name: string) =>
    `${address}?tab=${name}${scope.value ? `&vhost=${encodeURIComponent(scope.value)}` : ""}`;
  return [
    {
      group: "Do",
      icon: "eye",
      text: `Peek into ${queue.text}`,
      href: tab("messages"),
      act: () => go(tab("messages")),
    },
    {
      group: "Do",
      icon: "send",
      text: `Publish to ${queue.text}`,
      href: tab("publish"),
      act: () => go(tab("publish")),
    },
  ];
}

function Marked({ text, asked }: { text: string; asked: string }): JSX.Element {
  const at = asked ? text.toLowerCase().indexOf(asked.toLowerCase()) : -1;
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + asked.length)}</mark>
      {text.slice(at + asked.length)}
    </>
  );
}
