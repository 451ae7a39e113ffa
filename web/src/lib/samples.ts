// The broker's samples as the lines of a chart.

import type { Counts } from "./live";

export interface Details {
  rate: number;
  avg_rate?: number;
  samples?: { sample: number; timestamp: number }[];
}

export type Line = (number | null)[];

export interface Data {
  /** In seconds, oldest first. */
  times: number[];
  lines: Line[];
}

export const RANGES = [
  ["1m", "1 min"],
  ["10m", "10 min"],
  ["1h", "1 h"],
  ["8h", "8 h"],
  ["1d", "1 day"],
] as const;

export type Range = (typeof RANGES)[number][0];

// Age and step in seconds: the steps in which the broker keeps them, so that no step is between two samples.
const SPANS: Record<Range, [number, number]> = {
  "1m": [60, 5],
  "10m": [600, 5],
  "1h": [3600, 60],
  "8h": [28800, 600],
  "1d": [86400, 1800],
};

export const OBJECT_RANGES = RANGES.slice(0, 3);

export const isRange = (text: string | undefined): text is Range => text !== undefined && text in SPANS;

export const seconds = (range: Range): number => SPANS[range][0];

/** How often a chart of this range is asked for anew. */
export const refreshMs = (range: Range): number => (range === "1m" || range === "10m" ? 5_000 : 30_000);

/** What asks the API for samples. */
export function asked(range: Range, groups: string[]): Record<string, number> {
  const [age, step] = SPANS[range];
  return Object.fromEntries(
    groups.flatMap((group) => [
      [`${group}_age`, age],
      [`${group}_incr`, step],
    ]),
  );
}

const ordered = (details: Details | undefined) => [...(details?.samples ?? [])].reverse();

/** Lengths: the samples as they are. */
export function lengths(all: (Details | undefined)[]): Data {
  const rows = all.map(ordered);
  const longest = rows.find((row) => row.length) ?? [];
  return {
    times: longest.map((one) => one.timestamp / 1000),
    lines: rows.map((row) => longest.map((_, at) => row[at]?.sample ?? null)),
  };
}

/** Counters: by how much they grow in a second, between each sample and the one before. What shrinks was not measured. */
export function rates(all: (Details | undefined)[]): Data {
  const rows = all.map(ordered);
  const longest = rows.find((row) => row.length) ?? [];
  return {
    times: longest.slice(1).map((one) => one.timestamp / 1000),
    lines: rows.map((row) => longest.slice(1).map((_, at) => growth(row[at], row[at + 1]))),
  };
}

type Sample = { sample: number; timestamp: number };

function growth(before: Sample | undefined, after: Sample | undefined): number | null {
  // Something that was never counted has no samples: it was 0.
  if (!before || !after) return 0;
  const grown = after.sample - before.sample;
  return grown < 0 ? null : (grown * 1000) / Math.max(1, after.timestamp - before.timestamp);
}

/** The last minute, a second a point, from what the stream has told. */
export function lastMinute(
  recent: Counts[],
  now: number,
  value: (counts: Counts, before: Counts | undefined) => Line,
): Data {
  const from = now - 61_000;
  const rows = recent.filter((one) => one.time >= from);
  const found = rows.slice(1).map((one, at) => value(one, rows[at]));
  const count = found[0]?.length ?? 0;
  return {
    times: rows.slice(1).map((one) => one.time / 1000),
    lines: Array.from({ length: count }, (_, line) => found.map((row) => row[line] ?? null)),
  };
}

/** Older points before newer ones. */
export function joined(older: Data, newer: Data): Data {
  const first = newer.times[0];
  if (first === undefined || newer.times.length < 3) return older;
  const keep = older.times.filter((time) => time < first).length;
  return {
    times: [...older.times.slice(0, keep), ...newer.times],
    lines: newer.lines.map((line, at) => [...(older.lines[at]?.slice(0, keep) ?? []), ...line]),
  };
}

/** A counter's growth between two moments, in a second. */
export function perSecond(after: number | undefined, before: number | undefined, ms: number): number | null {
  if (after === undefined || before === undefined || after < before || ms <= 0) return null;
  return ((after - before) * 1000) / ms;
}
