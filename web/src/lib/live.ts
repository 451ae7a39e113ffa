// The stream of counters and changes. When it cannot be had, the counters are asked for; when nothing answers, the page says
// so, keeps what it shows, and tries again until the broker is back.

import { computed, effect, signal } from "@preact/signals";
import { get, signedOut } from "./api";
import { session } from "./session";

export interface Counts {
  time: number;
  message_stats: Record<string, number>;
  queue_totals: Record<string, number>;
  object_totals: Record<string, number>;
  node?: Record<string, number>;
  alarms?: string[];
}

export interface Change {
  kind: string;
  vhost?: string;
  name: string;
}

const RETRY_S = 3;
const SILENCE_MS = 8_000;
const KEPT = 130;

export const paused = signal(0);
/** Since when there is no connection; 0 if there is one. */
export const lostSince = signal(0);
export const retryAt = signal(0);
export const counts = signal<Counts | null>(null);
/** The counters of the last two minutes, one a second. */
export const recent: Counts[] = [];
/** Grows with each change of what is defined, so that lists are asked for anew at once. */
export const changed = signal(0);
/** Grows when a lost connection is there again. */
export const returned = signal(0);
export const visible = signal(true);
export const updating = computed(() => !paused.value && !lostSince.value && visible.value && session.value !== null);

const KINDS = [
  "queue",
  "exchange",
  "binding",
  "policy",
  "operator_policy",
  "vhost",
  "user",
  "permission",
  "parameter",
  "connection",
];
const ENDS = ["created", "deleted", "set", "cleared", "closed", "changed"];

let source: EventSource | null = null;
let timer = 0;
let lastAt = 0;
let pending = 0;

function take(found: Counts): void {
  lastAt = performance.now();
  if (lostSince.peek()) {
    lostSince.value = 0;
    returned.value++;
  }
  recent.push(found);
  if (recent.length > KEPT) recent.shift();
  if (!paused.peek()) counts.value = found;
}

/** Many changes at once are one: lists are asked for when it is quiet again, or each second. */
function note(): void {
  if (pending) return;
  pending = setTimeout(() => {
    pending = 0;
    if (!paused.peek()) changed.value++;
  }, 400) as unknown as number;
}

export function connect(): void {
  disconnect();
  if (typeof EventSource === "undefined") {
    void poll();
    return;
  }
  const opened = new EventSource("api/stream?interval=1");
  source = opened;
  lastAt = performance.now();
  opened.addEventListener("counters", (event) => take(JSON.parse((event as MessageEvent<string>).data) as Counts));
  for (const kind of KINDS) for (const end of ENDS) opened.addEventListener(`${kind}.${end}`, note);
  opened.addEventListener("missed", note);
  opened.onerror = () => {
    opened.close();
    if (source === opened) again();
  };
  timer = setInterval(() => {
    if (performance.now() - lastAt > SILENCE_MS) again();
  }, 2_000) as unknown as number;
}

function disconnect(): void {
  source?.close();
  source = null;
  clearInterval(timer);
  clearTimeout(timer);
}

/** The stream has ended: see whether the broker answers at all. */
function again(): void {
  disconnect();
  void poll();
}

async function poll(): Promise<void> {
  if (!session.peek() || signedOut.peek()) return;
  try {
    const found = await get<Omit<Counts, "time">>("api/overview", {
      columns: "message_stats,queue_totals,object_totals",
    });
    const back = lostSince.peek() > 0;
    take({ time: Date.now(), ...found });
    // It answers, so the stream may be had now; if it ends at once again, this goes on as a poll.
    timer = setTimeout(connect, back ? 0 : RETRY_S * 1000) as unknown as number;
  } catch {
    if (signedOut.peek()) return;
    if (!lostSince.peek()) lostSince.value = Date.now();
    retryAt.value = Date.now() + RETRY_S * 1000;
    timer = setTimeout(() => void poll(), RETRY_S * 1000) as unknown as number;
  }
}

export function tryNow(): void {
  disconnect();
  void poll();
}

export function togglePause(): void {
  paused.value = paused.value ? 0 : Date.now();
  if (!paused.value) changed.value++;
}

export function start(): void {
  document.addEventListener("visibilitychange", () => {
    visible.value = !document.hidden;
    if (visible.value && !lostSince.peek()) changed.value++;
  });
  effect(() => {
    const wanted = session.value !== null && !signedOut.value && visible.value;
    if (wanted && !source && !lostSince.peek()) connect();
    if (!wanted) disconnect();
  });
}
