// Why did they die, and is it safe to put them back?

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, inWords, path, post } from "../lib/api";
import { duration, moment, percent, plural, rate, whole } from "../lib/format";
import { scope, toWith } from "../lib/route";
import { type Queue, rateOf } from "../lib/types";
import { useGet } from "../lib/use";
import { Callout, Card, Chip, Choice, Dots, Empty, Head, Input, Name, Shown } from "../ui/basic";
import { Icon } from "../ui/icon";
import { done, failed } from "../ui/toast";
import { exportMessages } from "./export";
import { KINDS } from "./messages";

interface Group {
  reason: string;
  queue: string;
  exchange: string;
  count: number;
  last: number | null;
  routing_keys: string[];
  error: string;
}

interface Deaths {
  groups: Group[];
  searched: number;
  others: number;
  ready: number;
}

const keyOf = (group: Group): string => `${group.reason}\n${group.queue}`;

export function DeadLetters({ vhost, name }: { vhost: string | undefined; name: string | undefined }): JSX.Element {
  const address = scope.value === undefined ? "api/queues" : path("queues", scope.value);
  const queues = useGet<Queue[]>(address, {
    state: "dead_letters",
    columns: "name,vhost,messages_ready,messages_ready_details",
  });
  const list = [...(queues.value ?? [])].sort((a, b) => b.messages_ready - a.messages_ready);
  const chosen = name === undefined ? list[0] : { vhost: vhost ?? "/", name };
  const total = list.reduce((sum, one) => sum + one.messages_ready, 0);
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head title="Dead letters" sub={<Dots items={[`${whole(total)} in ${plural(list.length, "queue")}`]} />} />
      <Shown of={queues} what="The dead-letter queues">
        {() =>
          chosen ? (
            <div class="grid">
              <section class="card c3 clip">
                <header>
                  <h2>Dead-letter queues</h2>
                </header>
                <table class="table">
                  <tbody>
                    {list.map((one) => (
                      <tr
                        key={`${one.vhost}/${one.name}`}
                        class={one.name === chosen.name && one.vhost === chosen.vhost ? "here" : ""}
                      >
                        <td>
                          <Name text={one.name} href={toWith(["dead-letters", one.vhost, one.name], {})} />
                        </td>
                        <td class="num w-count">{whole(one.messages_ready)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </section>
              <div class="c9 stack">
                <Groups key={`${chosen.vhost}\n${chosen.name}`} vhost={chosen.vhost} name={chosen.name} />
              </div>
            </div>
          ) : (
            <Card>
              <Empty icon="dead" title="No queue gets dead letters">
                <p>
                  A queue with a dead-letter exchange sends what is rejected, expired or too much to the queues bound
                  there.
                </p>
              </Empty>
            </Card>
          )
        }
      </Shown>
    </main>
  );
}

function Groups({ vhost, name }: { vhost: string; name: string }): JSX.Element {
  const deaths = useGet<Deaths>(path("queues", vhost, name, "deaths"), {}, 15_000);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const groups = deaths.value?.groups ?? [];
  const most = deaths.value?.searched ?? 0;
  const chosen = groups.filter((one) => selected.has(keyOf(one)));
  const toggle = (key: string) =>
    setSelected(selected.has(key) ? new Set([...selected].filter((one) => one !== key)) : new Set([...selected, key]));
  return (
    <>
      <section class="card clip">
        <header>
          <h2>{name}, grouped by why and where they died</h2>
          <a class="btn s" href={toWith(["queues", vhost, name], { tab: "messages" })}>
            <Icon name="eye" small />
            Peek
          </a>
          <button
            type="button"
            class="btn s hide-s"
            onClick={() =>
              void exportMessages(vhost, name)
                .then((count) => done(`${plural(count, "message")} exported`))
                .catch((error: unknown) => failed("Not exported", error))
            }
          >
            <Icon name="download" small />
            Export
          </button>
        </header>
        <Shown of={deaths} what="The dead letters">
          {(found) =>
            found.groups.length ? (
              <table class="table">
                <colgroup>
                  <col class="w-check" />
                  <col class="w-reason" />
                  <col />
                  <col class="gone" />
                  <col class="gone" />
                  <col class="w-count" />
                  <col class="w-share gone" />
                  <col class="w-last gone" />
                </colgroup>
                <thead>
                  <tr>
                    <th>
                      <input
                        type="checkbox"
                        class="check"
                        aria-label="Select all"
                        checked={chosen.length === groups.length}
                        onChange={() =>
                          setSelected(chosen.length === groups.length ? new Set() : new Set(groups.map(keyOf)))
                        }
                      />
                    </th>
                    <th>Reason</th>
                    <th>Died in</th>
                    <th class="gone">Came with key</th>
                    <th class="gone">Last error</th>
                    <th class="num">Count</th>
                    <th class="gone">Share</th>
                    <th class="num gone">Last</th>
                  </tr>
                </thead>
                <tbody>
                  {found.groups.map((one) => (
                    <tr key={keyOf(one)} aria-selected={selected.has(keyOf(one))}>
                      <td>
                        <input
                          type="checkbox"
                          class="check"
                          aria-label={`Select ${one.reason} in ${one.queue}`}
                          checked={selected.has(keyOf(one))}
                          onChange={() => toggle(keyOf(one))}
                        />
                      </td>
                      <td>
                        <Chip kind={KINDS[one.reason] ?? ""}>{one.reason}</Chip>
                      </td>
                      <td>
                        <Name text={one.queue} href={toWith(["queues", vhost, one.queue], {})} />
                      </td>
                      <td class="gone mono soft" title={one.routing_keys.join(", ")}>
                        {one.routing_keys.join(", ")}
                      </td>
                      <td class="gone soft" title={one.error}>
                        {one.error}
                      </td>
                      <td class="num strong">{whole(one.count)}</td>
                      <td class="gone">
                        <span class="meter dead" style={{ "--v": `${percent(one.count, most)}%` }} />
                      </td>
                      <td class="num gone soft">{one.last ? moment(one.last) : ""}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ) : (
              <Empty
                title={found.ready ? "None of these messages says where it died" : "There are no dead letters here"}
              >
                {found.ready > 0 && <p>They have no x-death header.</p>}
              </Empty>
            )
          }
        </Shown>
        {deaths.value && (
          <p class="tfoot">
            {whole(deaths.value.searched)} of {whole(deaths.value.ready)} were looked at. Looking changes nothing.
            {deaths.value.others > 0 && ` ${plural(deaths.value.others, "message")} did not die in a queue.`}
          </p>
        )}
      </section>
      {chosen.length > 0 && (
        <Replay vhost={vhost} name={name} groups={chosen} then={deaths.reload} ready={deaths.value?.ready ?? 0} />
      )}
    </>
  );
}

interface Rehearsed {
  moved: number;
  left: number;
  to: Record<string, number>;
}

function Replay({
  vhost,
  name,
  groups,
  then,
  ready,
}: {
  vhost: string;
  name: string;
  groups: Group[];
  then: () => void;
  ready: number;
}): JSX.Element {
  const all = groups.reduce((sum, one) => sum + one.count, 0);
  const [many, setMany] = useState("");
  const [rehearsed, setRehearsed] = useState<Rehearsed | null>(null);
  const [targets, setTargets] = useState<Record<string, Queue>>({});
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const count = many.trim() === "" ? all : Number(many.replace(/\D/g, ""));
  const body = { groups: groups.map(({ reason, queue }) => ({ reason, queue })), count };
  const asked = JSON.stringify([body, ready]);
  useEffect(() => {
    let current = true;
    const rehearse = async () => {
      try {
        const found = await post<Rehearsed>(path("queues", vhost, name, "replay"), { ...body, dry_run: true });
        const queues = await Promise.all(
          Object.keys(found.to).map((queue) => get<Queue>(path("queues", vhost, queue))),
        );
        if (!current) return;
        setRehearsed(found);
        setTargets(Object.fromEntries(queues.map((queue) => [queue.name, queue])));
        setError("");
      } catch (caught) {
        if (current) setError(inWords(caught));
      }
    };
    void rehearse();
    return () => {
      current = false;
    };
  }, [asked]);
  const replay = async (most: number) => {
    setBusy(true);
    try {
      const result = await post<Rehearsed>(path("queues", vhost, name, "replay"), { ...body, count: most });
      done(`${plural(result.moved, "message")} replayed`, `${whole(result.left)} stay in ${name}`);
      then();
    } catch (caught) {
      failed("Not replayed", caught);
    } finally {
      setBusy(false);
    }
  };
  const fresh = groups.filter((one) => one.last !== null && Date.now() - one.last < 120_000);
  const gone = groups.filter((one) => rehearsed && !(one.queue in rehearsed.to) && count >= all);
  return (
    <Card lined title={`Replay ${plural(count, "message")}`} note={`${plural(groups.length, "group")} selected`}>
      <div class="grid roomy">
        <div class="c5 col gap4">
          <p class="small soft">
            Each message goes back to the queue in which it died last, with the exchange and the key it came with.
          </p>
          <div class="row bottom">
            <Input
              label="How many"
              value={many}
              placeholder={whole(all)}
              onInput={setMany}
              hint="Oldest first. What cannot be placed stays here."
            />
          </div>
          <Choice
            label="How many"
            value={many === "10" ? "10" : "all"}
            onChange={(value) => setMany(value === "10" ? "10" : "")}
            options={[
              ["10", "First 10"],
              ["all", "All"],
            ]}
          />
        </div>
        <div class="c7 col gap3">
          <span class="label">What will happen</span>
          {error && (
            <p class="hint bad" role="alert">
              {error}
            </p>
          )}
          {rehearsed && (
            <dl class="kv" aria-live="polite">
              {Object.entries(rehearsed.to).map(([queue, moved]) => {
                const target = targets[queue];
                return (
                  <>
                    <dt>
                      <a href={toWith(["queues", vhost, queue], {})}>{queue}</a>
                    </dt>
                    <dd>
                      +{whole(moved)}{" "}
                      {target &&
                        `on ${whole(target.messages_ready)} ready, ${plural(target.consumers, "consumer")} at ${rate(rateOf(target.message_stats, "deliver_get"))}/s`}
                    </dd>
                  </>
                );
              })}
              <dt>{name}</dt>
              <dd>{plural(rehearsed.left, "message")} stay</dd>
            </dl>
          )}
          {gone.length > 0 && (
            <Callout kind="warn" icon="alert" title={`${gone.map((one) => one.queue).join(", ")} is no longer there`}>
              Its dead letters stay where they are.
            </Callout>
          )}
          {fresh[0] && (
            <Callout
              kind="warn"
              icon="alert"
              title={`The last death in ${fresh[0].queue} was ${duration(Date.now() - (fresh[0].last ?? 0))} ago`}
            >
              Unless a fix is live they will come back. Replay the first 10 to find out.
            </Callout>
          )}
        </div>
      </div>
      <div class="tfoot tall">
        <span class="hide-s">Each message is moved in one step: a crash leaves it in one place only.</span>
        <span class="grow" />
        {count > 10 && (
          <button type="button" class="btn" disabled={busy} onClick={() => void replay(10)}>
            Replay first 10
          </button>
        )}
        <button
          type="button"
          class="btn primary"
          disabled={busy || !rehearsed?.moved}
          onClick={() => void replay(count)}
        >
          <Icon name="replay" />
          Replay {whole(Math.min(count, rehearsed?.moved ?? count))}
        </button>
      </div>
    </Card>
  );
}
