// Numbers, times and sizes in words, as the page says them everywhere: a number has a unit, zero is zero.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const whole = (value: number): string => WHOLE.format(value);

/** A rate without its unit: below 1,000 one decimal. */
export function rate(value: number): string {
  if (Math.abs(value) < 0.05) return "0";
  return Math.abs(value) < 1000 ? ONE.format(value) : WHOLE.format(value);
}

/** As on an axis: 1.2 k, 3.4 M. */
export function short(value: number): string {
  const size = Math.abs(value);
  for (const [unit, name] of [
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ] as const) {
    if (size >= unit) return `${Number((value / unit).toFixed(1))}${name}`;
  }
  return String(Number(value.toFixed(2)));
}

export function bytes(value: number): string {
  for (const [unit, name] of [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ] as const) {
    if (value >= unit) return `${(value / unit).toFixed(value / unit < 10 ? 2 : value / unit < 100 ? 1 : 0)} ${name}`;
  }
  return `${whole(value)} B`;
}

/** How long, in the two largest units that matter. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

const two = (value: number): string => String(value).padStart(2, "0");

export function clock(ms: number, seconds = true): string {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

/** Today a time, before that a date with it. */
export function moment(ms: number): string {
  const at = new Date(ms);
  if (at.toDateString() === new Date().toDateString()) return clock(ms);
  return `${at.getDate()} ${at.toLocaleString("en", { month: "short" })} ${clock(ms, false)}`;
}

export const iso = (ms: number): string => new Date(ms).toISOString();

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

/** A value of a table as text. */
export function shown(value: unknown): string {
  if (typeof value === "number") return whole(value);
  if (typeof value === "string") return value === "" ? "(empty)" : value;
  return JSON.stringify(value);
}

export function percent(part: number, all: number): number {
  return all > 0 ? Math.min(100, Math.max(0, (100 * part) / all)) : 0;
}
