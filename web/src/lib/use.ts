// What a component shows of the API: asked for when it appears, and again as time passes or something changes.

import { useSignalEffect } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Query, Refused, withQuery } from "./api";
import { changed, returned, updating } from "./live";

export interface Loaded<T> {
  value: T | undefined;
  error: unknown;
  reload: () => void;
}

/** GET an address now, every `everyMs`, and when something was declared or deleted. Without an address nothing is asked. */
export function useGet<T>(address: string | null, query: Query = {}, everyMs = 5_000): Loaded<T> {
  const full = address === null ? null : withQuery(address, query);
  const [found, setFound] = useState<{ of: string | null; value?: T; error?: unknown }>({ of: null });
  const wanted = useRef(full);
  wanted.current = full;
  const asking = useRef(false);

  const load = useCallback(async () => {
    const asked = wanted.current;
    if (asked === null || asking.current) return;
    asking.current = true;
    try {
      const value = await get<T>(asked);
      if (wanted.current === asked) setFound({ of: asked, value });
    } catch (error) {
      // What was there stays while the broker is away; what the broker refuses is not there.
      if (wanted.current === asked) {
        setFound((before) => (error instanceof Refused || before.of !== asked ? { of: asked, error } : before));
      }
    } finally {
      asking.current = false;
      if (wanted.current !== asked) void load();
    }
  }, []);

  useEffect(() => {
    void load();
    if (!everyMs) return;
    const timer = setInterval(() => {
      if (updating.peek()) void load();
    }, everyMs);
    return () => clearInterval(timer);
  }, [full, everyMs, load]);

  const first = useRef(true);
  useSignalEffect(() => {
    changed.value;
    returned.value;
    if (first.current) first.current = false;
    else void load();
  });

  const current = found.of === full;
  return {
    value: current || found.value !== undefined ? found.value : undefined,
    error: current ? found.error : undefined,
    reload: () => void load(),
  };
}

/** What is typed, kept over a reload; never for passwords. */
export function useDraft<T>(key: string, initial: T): [T, (value: T) => void, () => void] {
  const [value, setValue] = useState<T>(() => {
    const kept = sessionStorage.getItem(`draft:${key}`);
    return kept === null ? initial : (JSON.parse(kept) as T);
  });
  const set = useCallback(
    (next: T) => {
      setValue(next);
      sessionStorage.setItem(`draft:${key}`, JSON.stringify(next));
    },
    [key],
  );
  const clear = useCallback(() => {
    setValue(initial);
    sessionStorage.removeItem(`draft:${key}`);
  }, [key]);
  return [value, set, clear];
}

/** A value that follows another, when it has been still for a while. */
export function useSettled<T>(value: T, ms = 250): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
