// What needs attention, in sentences; sorted by how soon it hurts.

import { computed, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { clock, duration, plural, rate, whole } from "../lib/format";
import { scope, toWith } from "../lib/route";
import { useGet } from "../lib/use";
import { Card } from "../ui/basic";
import { Icon, type IconName } from "../ui/icon";

export interface Finding {
  kind: "growing" | "stuck" | "dead_letters" | "unroutable" | "alarm";
  vhost?: string;
  name: string;
  ready?: number;
  rate?: number;
  since?: number;
  limit?: number | null;
  full_in_s?: number | null;
  consumers?: number;
  unacked?: number;
  grown?: number;
  dropped?: number;
  returned?: number;
}

export interface Attention {
  items: Finding[];
  counts: Record<string, number>;
  dead_letters: number;
  states: Record<string, number>;
}

const latest = signal<Attention | null>(null);
export const attentionCount = computed(() =>
  Object.values(latest.value?.counts ?? {}).reduce((sum, one) => sum + one, 0),
);
export const deadLetters = computed(() => latest.value?.dead_letters ?? 0);

/** The attention of this vhost, or of all; kept for those who only want its sums. */
export function useAttention(): Attention | null {
  const { value } = useGet<Attention>("api/attention", { vhost: scope.value }, 10_000);
  useEffect(() => {
    if (value) latest.value = value;
  }, [value]);
  return value ?? null;
}

/** Of one queue, what is to be said first. */
export function findingOf(attention: Attention | null, vhost: string, name: string): Finding | undefined {
  return attention?.items.find((one) => one.vhost === vhost && one.name === name);
}

const ICONS: Record<Finding["kind"], IconName> = {
  growing: "grow",
  stuck: "stuck",
  dead_letters: "dead",
  unroutable: "lost",
  alarm: "alert",
};

export const isBad = (one: Finding): boolean =>
  one.kind === "alarm" || (one.kind === "growing" && (one.full_in_s ?? Number.POSITIVE_INFINITY) < 3600);

export function sentence(one: Finding): ComponentChildren {
  const strong = (text: string) => <b class="strong">{text}</b>;
  const since = one.since ? duration(Date.now() - one.since) : "";
  switch (one.kind) {
    case "growing":
      return (
        <>
          Grows by {strong(`${rate(one.rate ?? 0)}/s`)} for {since}. {full(one)}
        </>
      );
    case "stuck":
      return (
        <>
          {one.consumers === 1 ? "Its only consumer has" : `Its ${whole(one.consumers ?? 0)} consumers have`} held{" "}
          {strong(whole(one.unacked ?? 0))} {one.unacked === 1 ? "message" : "messages"} for {since} without an ack.
        </>
      );
    case "dead_letters":
      return (
        <>
          {strong(whole(one.grown ?? 0))} more dead letters in the last hour; {whole(one.ready ?? 0)} in all.
        </>
      );
    case "unroutable":
      return (
        <>
          {strong(`${rate((one.dropped ?? 0) + (one.returned ?? 0))}/s`)} match no binding.{" "}
          {one.dropped ? `${rate(one.dropped)}/s of them are dropped.` : "They are returned to their publishers."}
        </>
      );
    default:
      return <>Publishers are stopped: {one.name}</>;
  }
}

function full(one: Finding): string {
  if (one.limit === null || one.limit === undefined)
    return `${whole(one.ready ?? 0)} are ready, and there is no limit.`;
  if (one.full_in_s === 0) return `It is full (${whole(one.limit)}).`;
  return `Full (${whole(one.limit)}) in about ${duration((one.full_in_s ?? 0) * 1000)}.`;
}

function goal(one: Finding): [string, string] | null {
  const { vhost = "", name } = one;
  if (one.kind === "growing" || one.kind === "stuck")
    return [toWith(["queues", vhost, name], { tab: "consumers" }), one.consumers ? "See consumers" : "See queue"];
  if (one.kind === "dead_letters") return [toWith(["dead-letters", vhost, name], {}), "Review and replay"];
  if (one.kind === "unroutable") return [toWith(["exchanges"], {}), "Try a message"];
  return null;
}

export function NeedsAttention({ attention }: { attention: Attention | null }): JSX.Element | null {
  if (!attention) return null;
  const items = attention.items.slice(0, 8);
  const count = Object.values(attention.counts).reduce((sum, one) => sum + one, 0);
  if (!items.length) return null;
  return (
    <Card
      class="attention gap-below"
      title={
        <>
          Needs attention <span class="muted plain-weight">{count}</span>
        </>
      }
      note={<span class="muted hide-s">Sorted by how soon it hurts</span>}
    >
      <ul>
        {items.map((one) => {
          const to = goal(one);
          const title = one.name || "Unroutable messages";
          return (
            <li key={`${one.kind}/${one.vhost}/${one.name}`} class={isBad(one) ? "bad" : ""}>
              <Icon name={ICONS[one.kind]} />
              {one.vhost === undefined ? (
                <span class="what cut">{one.kind === "alarm" ? "Alarm" : title}</span>
              ) : (
                <a class="what cut" title={title} href={toWith(["queues", one.vhost, one.name], {})}>
                  {title}
                </a>
              )}
              <p>{sentence(one)}</p>
              <span class="since small muted">{one.since ? `since ${clock(one.since, false)}` : ""}</span>
              {to ? (
                <a class="go" href={to[0]}>
                  {to[1]}
                </a>
              ) : (
                <span />
              )}
            </li>
          );
        })}
      </ul>
      {count > items.length && <p class="tfoot">and {plural(count - items.length, "more", "more")}</p>}
    </Card>
  );
}
