// The rows of a list. A long one stays in the broker: the page asks for the rows that are in view, sorted and filtered there.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Query, Refused } from "./api";
import { changed, returned, updating } from "./live";
import { useGet } from "./use";

export interface Rows<T> {
  total: number;
  filtered: number;
  row: (at: number) => T | undefined;
  /** Have the rows from `first` up to `last` asked for. */
  need: (first: number, last: number) => void;
  all: () => Promise<T[]>;
  reload: () => void;
  error: unknown;
  loaded: boolean;
}

export interface Asked {
  filter: string;
  regex: boolean;
  sort: string;
  reverse: boolean;
}

const PAGE = 100;
// Sorted by anything but the name, a list is made whole by the broker; so a long one is asked for less often.
const LONG = 2_000;
const LONG_MS = 30_000;
const MS = 5_000;

interface Page<T> {
  total_count: number;
  filtered_count: number;
  items: T[];
}

interface Found<T> {
  of: string;
  total: number;
  filtered: number;
  pages: Map<number, T[]>;
  error: unknown;
}

/** A list of which the broker gives a page at a time. */
export function useRemoteRows<T>(address: string, asked: Asked, query: Query = {}): Rows<T> {
  const full: Query = {
    ...query,
    page_size: PAGE,
    name: asked.filter,
    use_regex: asked.regex && asked.filter ? "true" : undefined,
    sort: asked.sort,
    sort_reverse: asked.reverse ? "true" : undefined,
  };
  const of = JSON.stringify([address, full]);
  const [found, setFound] = useState<Found<T>>({ of: "", total: 0, filtered: 0, pages: new Map(), error: undefined });
  const current = useRef({ of, address, full, wanted: new Set([0]), asking: new Set<number>() });
  if (current.current.of !== of) current.current = { of, address, full, wanted: new Set([0]), asking: new Set() };
  const mounted = useRef(true);
  useEffect(
    () => () => {
      mounted.current = false;
    },
    [],
  );

  const load = useCallback(async (number: number) => {
    const state = current.current;
    if (state.asking.has(number)) return;
    state.asking.add(number);
    try {
      const page = await get<Page<T>>(state.address, { ...state.full, page: number + 1 });
      if (current.current !== state || !mounted.current) return;
      setFound((before) => {
        const pages = before.of === state.of ? new Map(before.pages) : new Map<number, T[]>();
        pages.set(number, page.items);
        return { of: state.of, total: page.total_count, filtered: page.filtered_count, pages, error: undefined };
      });
    } catch (error) {
      if (current.current !== state || !mounted.current || !(error instanceof Refused)) return;
      // Fewer rows than there were: what is in view now is asked for.
      if (error.reason.startsWith("Page out of range") && number > 0) {
        state.wanted = new Set([0]);
        void load(0);
        return;
      }
      // A bad pattern: the old result stays.
      setFound((before) => ({ ...before, error }));
    } finally {
      state.asking.delete(number);
    }
  }, []);

  const reload = useCallback(() => {
    for (const number of current.current.wanted) void load(number);
  }, [load]);

  useEffect(reload, [of, reload]);
  useEffect(reload, [changed.value, returned.value]);
  const every = found.total > LONG && asked.sort !== "" && asked.sort !== "name" ? LONG_MS : MS;
  useEffect(() => {
    const timer = setInterval(() => {
      if (updating.peek()) reload();
    }, every);
    return () => clearInterval(timer);
  }, [every, reload]);

  const need = useCallback(
    (first: number, last: number) => {
      const state = current.current;
      const wanted = new Set<number>();
      for (let number = Math.floor(first / PAGE); number <= Math.floor(Math.max(first, last - 1) / PAGE); number++)
        wanted.add(number);
      for (const number of wanted) if (!state.wanted.has(number)) void load(number);
      state.wanted = wanted;
    },
    [load],
  );

  const all = useCallback(async () => {
    const rows: T[] = [];
    for (let number = 1, pages = 1; number <= pages; number++) {
      const page = await get<Page<T> & { page_count: number }>(current.current.address, {
        ...current.current.full,
        page_size: 500,
        page: number,
      });
      rows.push(...page.items);
      pages = page.page_count;
    }
    return rows;
  }, []);

  return {
    total: found.total,
    filtered: found.filtered,
    row: (at) => found.pages.get(Math.floor(at / PAGE))?.[at % PAGE],
    need,
    all,
    reload,
    error: found.error,
    loaded: found.of !== "",
  };
}

export type Value = string | number | boolean | undefined;

/** A short list, which is asked for whole; filtered and sorted here. */
export function useLocalRows<T>(
  address: string | null,
  asked: Asked,
  name: (row: T) => string,
  value: (row: T, sort: string) => Value,
  query: Query = {},
): Rows<T> {
  const loaded = useGet<T[]>(address, query);
  const shown = useMemo(
    () => arranged(loaded.value ?? [], asked, name, value),
    [loaded.value, asked.filter, asked.regex, asked.sort, asked.reverse],
  );
  return {
    total: loaded.value?.length ?? 0,
    filtered: shown.rows.length,
    row: (at) => shown.rows[at],
    need: () => undefined,
    all: async () => shown.rows,
    reload: loaded.reload,
    error: loaded.error ?? shown.error,
    loaded: loaded.value !== undefined,
  };
}

export function arranged<T>(
  rows: T[],
  asked: Asked,
  name: (row: T) => string,
  value: (row: T, sort: string) => Value,
): { rows: T[]; error?: unknown } {
  let matches = (text: string) => text.toLowerCase().includes(asked.filter.toLowerCase());
  let error: unknown;
  if (asked.regex && asked.filter) {
    try {
      const pattern = new RegExp(asked.filter, "i");
      matches = (text) => pattern.test(text);
    } catch (caught) {
      error = caught;
      matches = () => true;
    }
  }
  const found = asked.filter ? rows.filter((row) => matches(name(row))) : [...rows];
  if (asked.sort) {
    found.sort((a, b) => compare(value(a, asked.sort), value(b, asked.sort)) * (asked.reverse ? -1 : 1));
  }
  return error === undefined ? { rows: found } : { rows: found, error };
}

function compare(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}
