// A table of any length: only the rows in view are there. Sorted, filtered and with columns as the address says; by keyboard
// as by mouse; rows can be selected, and stay where they are while somebody points at one.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { inWords } from "../lib/api";
import { plural, whole } from "../lib/format";
import { onKey } from "../lib/keys";
import { place, setQuery } from "../lib/route";
import type { Asked, Rows } from "../lib/rows";
import { Empty, Skeleton } from "./basic";
import { Icon } from "./icon";
import { Menu } from "./menu";

export interface Column<T> {
  key: string;
  title: string;
  show: (row: T) => ComponentChildren;
  num?: boolean;
  width?: string;
  /** What the list is sorted by for this column; without it it cannot be. */
  sort?: string;
  /** Where it stands on a phone: above, below, or nowhere. */
  phone?: "" | "l2" | "gone";
  /** Not shown unless it is chosen. */
  optional?: boolean;
  /** Gives way on a screen of middle width. */
  narrow?: boolean;
}

export interface GridProps<T> {
  id: string;
  label: string;
  rows: Rows<T>;
  asked: Asked;
  columns: Column<T>[];
  keyOf: (row: T) => string;
  nameOf: (row: T) => string;
  href?: (row: T) => string;
  filterLabel?: string;
  extra?: ComponentChildren;
  selected?: Selection<T>;
  onPeek?: (row: T) => void;
  empty: ComponentChildren;
}

export interface Selection<T> {
  rows: Map<string, T>;
  set: (rows: Map<string, T>) => void;
}

export function useSelection<T>(): Selection<T> {
  const [rows, set] = useState<Map<string, T>>(new Map());
  return { rows, set };
}

/** How a list is filtered and sorted: from the address. */
export function askedOf(sort = "", reverse = false): Asked {
  const { q = "", re, sort: by, desc } = place.value.query;
  return { filter: q, regex: re === "1", sort: by ?? sort, reverse: by === undefined ? reverse : desc === "1" };
}

const OVERSCAN = 12;
const version = signal(0);

function chosen(id: string): Set<string> | null {
  version.value;
  const kept = localStorage.getItem(`columns:${id}`);
  return kept === null ? null : new Set(JSON.parse(kept) as string[]);
}

export function Grid<T>(props: GridProps<T>): JSX.Element {
  const { rows } = props;
  const kept = chosen(props.id);
  const columns = props.columns.filter((one) => (kept ? kept.has(one.key) : !one.optional));
  const { asked } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const [view, setView] = useState({ first: 0, last: 40, height: 37 });
  const [here, setHere] = useState(-1);

  const measure = useCallback(() => {
    const element = body.current;
    const main = element?.closest<HTMLElement>(".main");
    if (!element || !main) return;
    const some = element.querySelector<HTMLElement>("tr.item");
    const height = some ? some.getBoundingClientRect().height || 37 : 37;
    const above = main.getBoundingClientRect().top - element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / height) - OVERSCAN);
    const last = Math.ceil((above + main.clientHeight) / height) + OVERSCAN;
    setView((before) =>
      before.first === first && before.last === last && before.height === height ? before : { first, last, height },
    );
  }, []);

  useLayoutEffect(measure);
  useEffect(() => {
    const main = body.current?.closest(".main");
    main?.addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      main?.removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [measure]);

  const first = Math.min(view.first, Math.max(0, rows.filtered - 1));
  const last = Math.min(rows.filtered, view.last);
  useEffect(() => rows.need(first, Math.max(first + 1, last)), [first, last, rows.need]);

  const held = useHeld(props, first, last);
  const { shown } = held;

  const move = (by: number) => {
    if (!rows.filtered) return;
    const next = Math.max(0, Math.min(rows.filtered - 1, here + by));
    setHere(next);
    reveal(body.current, next, view.height);
  };
  const select = (at: number, upTo = false) => {
    const row = rows.row(at);
    if (!props.selected || row === undefined) return;
    const found = new Map(props.selected.rows);
    const anchor = upTo && lastSelected.current >= 0 ? lastSelected.current : at;
    for (let one = Math.min(anchor, at); one <= Math.max(anchor, at); one++) {
      const each = rows.row(one);
      if (each === undefined) continue;
      const key = props.keyOf(each);
      if (anchor === at && found.has(key)) found.delete(key);
      else found.set(key, each);
    }
    lastSelected.current = at;
    props.selected.set(found);
  };
  const lastSelected = useRef(-1);
  const act = useRef({ move, select, here, props });
  act.current = { move, select, here, props };
  useEffect(
    () =>
      onKey((key, event) => {
        const { move, select, here, props } = act.current;
        const row = here >= 0 ? props.rows.row(here) : undefined;
        if (key === "j" || key === "ArrowDown") move(1);
        else if (key === "k" || key === "ArrowUp") move(-1);
        else if (key === "x" && row) select(here);
        else if (key === "X" && row) select(here, true);
        else if (
          key === "Enter" &&
          row &&
          props.href &&
          !(event.target as HTMLElement).closest("a, button, input, select")
        )
          location.hash = props.href(row);
        else if (key === "p" && row && props.onPeek) props.onPeek(row);
        else if (key === "Escape" && props.selected?.rows.size) props.selected.set(new Map());
        else return false;
        return true;
      }),
    [],
  );

  const allSelected =
    props.selected !== undefined && props.selected.rows.size > 0 && props.selected.rows.size >= rows.filtered;
  const selectAll = async () => {
    if (!props.selected) return;
    if (props.selected.rows.size) props.selected.set(new Map());
    else props.selected.set(new Map((await rows.all()).map((row) => [props.keyOf(row), row])));
  };

  return (
    <>
      <FilterBar {...props} />
      <section class="card grid-card" aria-label={props.label}>
        <table
          class="table list"
          role="grid"
          aria-label={props.label}
          aria-rowcount={rows.filtered + 1}
          aria-multiselectable={props.selected ? true : undefined}
        >
          <colgroup>
            {props.selected && <col style={{ width: "44px" }} />}
            {columns.map((one) => (
              <col key={one.key} class={one.narrow ? "hide-m" : ""} style={one.width ? { width: one.width } : {}} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {props.selected && (
                <th scope="col">
                  <input
                    type="checkbox"
                    class={allSelected || !props.selected.rows.size ? "check" : "check some"}
                    aria-label="Select all"
                    checked={allSelected}
                    onChange={() => void selectAll()}
                  />
                </th>
              )}
              {columns.map((one) => (
                <Heading key={one.key} column={one} asked={asked} />
              ))}
            </tr>
          </thead>
          <tbody ref={body} onMouseEnter={held.hold} onMouseLeave={held.release}>
            {first > 0 && <Space height={first * view.height} />}
            {shown.map(([at, row]) =>
              row === undefined ? (
                <tr key={`empty${at}`} class="item" aria-rowindex={at + 2} aria-busy="true">
                  <td colSpan={columns.length + (props.selected ? 1 : 0)}>
                    <span class="skeleton" />
                  </td>
                </tr>
              ) : (
                <tr
                  key={props.keyOf(row)}
                  class={at === here ? "item here" : "item"}
                  aria-rowindex={at + 2}
                  aria-selected={props.selected ? props.selected.rows.has(props.keyOf(row)) : undefined}
                  onMouseDown={() => setHere(at)}
                >
                  {props.selected && (
                    <td class="gone">
                      <input
                        type="checkbox"
                        class="check"
                        aria-label={`Select ${props.nameOf(row)}`}
                        checked={props.selected.rows.has(props.keyOf(row))}
                        onClick={(event) => select(at, event.shiftKey)}
                      />
                    </td>
                  )}
                  {columns.map((one) => (
                    <td
                      key={one.key}
                      class={`${one.num ? "num" : ""} ${one.phone ?? "gone"} ${one.narrow ? "hide-m" : ""}`}
                    >
                      {one.show(row)}
                    </td>
                  ))}
                </tr>
              ),
            )}
            {last < rows.filtered && <Space height={(rows.filtered - last) * view.height} />}
          </tbody>
        </table>
        {!rows.loaded &&
          (rows.error !== undefined ? (
            <Empty bad title={`${props.label} cannot be shown`}>
              <p>{inWords(rows.error)}</p>
            </Empty>
          ) : (
            <Skeleton lines={6} />
          ))}
        {rows.loaded && rows.filtered === 0 && (rows.total > 0 ? <NoneFound /> : props.empty)}
        <div class="tfoot">
          <span>
            {rows.filtered === rows.total ? whole(rows.total) : `${whole(rows.filtered)} of ${whole(rows.total)}`}
          </span>
          {held.changes > 0 && (
            <button type="button" class="btn quiet s" onClick={held.release}>
              {plural(held.changes, "change")}, sort again
            </button>
          )}
          <span class="grow" />
          {[
            ["J", ""],
            ["K", "move"],
            ...(props.selected ? [["X", "select"]] : []),
            ...(props.onPeek ? [["P", "peek"]] : []),
            ...(props.href ? [["↵", "open"]] : []),
          ].map(([key, what]) => (
            <span key={key} class="hide-s row gap1">
              <span class="kbd">{key}</span> {what}
            </span>
          ))}
        </div>
      </section>
    </>
  );
}

/** The rows in view; in the order they had, while one of them is pointed at: a row never moves under the pointer. */
function useHeld<T>(props: GridProps<T>, first: number, last: number) {
  const order = useRef<{ sort: string; keys: Map<number, string>; rows: Map<string, T> } | null>(null);
  const sort = JSON.stringify([props.asked, props.rows.filtered]);
  const now: [number, T | undefined][] = [];
  for (let at = first; at < last; at++) now.push([at, props.rows.row(at)]);
  const kept = order.current;
  if (kept && kept.sort !== sort) order.current = null;
  let changes = 0;
  let shown = now;
  if (kept && kept.sort === sort) {
    for (const [, row] of now) if (row !== undefined) kept.rows.set(props.keyOf(row), row);
    shown = now.map(([at, row]) => {
      const key = row === undefined ? "" : props.keyOf(row);
      const before = kept.keys.get(at);
      if (before === undefined) {
        if (row !== undefined) kept.keys.set(at, key);
        return [at, row];
      }
      if (before !== key) changes++;
      return [at, kept.rows.get(before)];
    });
  }
  const hold = () => {
    const keys = new Map<number, string>();
    const rows = new Map<string, T>();
    for (const [at, row] of now) {
      if (row === undefined) continue;
      keys.set(at, props.keyOf(row));
      rows.set(props.keyOf(row), row);
    }
    order.current ??= { sort, keys, rows };
  };
  const [, again] = useState(0);
  const release = () => {
    order.current = null;
    again((count) => count + 1);
  };
  return { shown, changes, hold, release };
}

function reveal(body: HTMLElement | null, at: number, height: number): void {
  const main = body?.closest<HTMLElement>(".main");
  if (!body || !main) return;
  const y = body.getBoundingClientRect().top - main.getBoundingClientRect().top + at * height;
  if (y < 40) main.scrollTop += y - 40;
  else if (y + height > main.clientHeight - 40) main.scrollTop += y + height - main.clientHeight + 40;
}

function Space({ height }: { height: number }): JSX.Element {
  return <tr class="space" style={{ height: `${height}px` }} />;
}

function NoneFound(): JSX.Element {
  return (
    <Empty icon="search" title="Nothing matches the filter">
      <button type="button" class="btn s" onClick={() => setQuery({ q: undefined, re: undefined })}>
        Clear the filter
      </button>
    </Empty>
  );
}

function Heading<T>({ column, asked }: { column: Column<T>; asked: Asked }): JSX.Element {
  const active = column.sort !== undefined && asked.sort === column.sort;
  const cls = `${column.num ? "num" : ""} ${column.narrow ? "hide-m" : ""}`;
  if (column.sort === undefined) {
    return (
      <th class={cls} scope="col">
        {column.title}
      </th>
    );
  }
  const sortBy = () => {
    const desc = active ? !asked.reverse : (column.num ?? false);
    setQuery({ sort: column.sort, desc: desc ? "1" : undefined });
  };
  return (
    <th class={cls} scope="col" aria-sort={active ? (asked.reverse ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort" onClick={sortBy}>
        {column.title}
        {active && <Icon name={asked.reverse ? "down" : "up"} />}
      </button>
    </th>
  );
}

function FilterBar<T>(props: GridProps<T>): JSX.Element {
  const { q = "", re } = place.value.query;
  const [text, setText] = useState(q);
  const timer = useRef(0);
  const kept = chosen(props.id);
  useEffect(() => setText(q), [q]);
  const type = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ q: value || undefined }), 200) as unknown as number;
  };
  const bad = props.rows.loaded && props.rows.error !== undefined ? inWords(props.rows.error) : "";
  const toggleColumn = (key: string) => {
    const now = new Set(kept ?? props.columns.filter((one) => !one.optional).map((one) => one.key));
    if (now.has(key)) now.delete(key);
    else now.add(key);
    localStorage.setItem(`columns:${props.id}`, JSON.stringify([...now]));
    version.value++;
  };
  return (
    <div class="filterbar two">
      <div class="with-icon">
        <Icon name="search" small />
        <input
          class={`input ${bad ? "wrong" : ""}`}
          data-filter
          aria-label={props.filterLabel ?? "Filter by name"}
          placeholder={props.filterLabel ?? "Filter by name"}
          value={text}
          spellcheck={false}
          onInput={(event) => type(event.currentTarget.value)}
        />
        <span class="end">
          <button
            type="button"
            class="toggle-in"
            aria-pressed={re === "1"}
            title="Regular expression"
            aria-label="Regular expression"
            onClick={() => setQuery({ re: re === "1" ? undefined : "1" })}
          >
            .*
          </button>
          <span class="kbd">/</span>
        </span>
      </div>
      {props.extra}
      <span class="grow" />
      <Menu
        label="Columns"
        class="btn quiet s hide-s"
        stays
        items={props.columns.slice(1).map((one) => ({
          text: one.title,
          checked: kept ? kept.has(one.key) : !one.optional,
          act: () => toggleColumn(one.key),
        }))}
      >
        <Icon name="columns" />
        Columns
      </Menu>
      {bad && (
        <p class="hint bad small full" role="alert">
          {bad}
        </p>
      )}
    </div>
  );
}

/** What can be done with the rows that are selected. */
export function SelectionBar<T>(props: {
  selection: Selection<T>;
  what: string;
  note?: string;
  children: ComponentChildren;
}): JSX.Element | null {
  const count = props.selection.rows.size;
  if (!count) return null;
  return (
    <div class="selbar" role="toolbar" aria-label={props.what}>
      <p>
        <span class="strong">{whole(count)} selected</span>
        {props.note && <span class="muted">{props.note}</span>}
      </p>
      <hr />
      {props.children}
      <hr />
      <button
        type="button"
        class="btn quiet icon"
        aria-label="Clear the selection"
        onClick={() => props.selection.set(new Map())}
      >
        <Icon name="x" />
      </button>
    </div>
  );
}

/** Do the same to many, some at a time; how many it was done to, and what went wrong first. */
export async function toEach<T>(
  rows: Iterable<T>,
  action: (row: T) => Promise<unknown>,
): Promise<{ done: number; error?: unknown }> {
  const waiting = [...rows];
  let done = 0;
  let error: unknown;
  const worker = async () => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
      try {
        await action(row);
        done++;
      } catch (caught) {
        error ??= caught;
      }
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return error === undefined ? { done } : { done, error };
}
