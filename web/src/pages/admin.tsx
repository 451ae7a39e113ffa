// Users and what they may do, virtual hosts, limits, shovels, features.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { path, put, remove } from "../lib/api";
import { plural, whole } from "../lib/format";
import { place, scope, setQuery, to, written } from "../lib/route";
import { type Rows, useLocalRows } from "../lib/rows";
import { isAdministrator, isMonitor, isPolicymaker, load, session } from "../lib/session";
import { useDraft, useGet } from "../lib/use";
import { Card, Check, Chip, Dots, Empty, Facts, Head, Input, Name, Pill, Select, Shown } from "../ui/basic";
import { confirmDestruction, FormDialog, showDialog } from "../ui/dialog";
import { askedOf, type Column, Grid } from "../ui/grid";
import { Icon } from "../ui/icon";
import { attempt } from "../ui/toast";

const TAGS = ["administrator", "monitoring", "policymaker", "management", "impersonator"];

interface User {
  name: string;
  tags: string[];
  password_hash: string;
  limits: Record<string, number>;
}

interface Granted {
  user: string;
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

interface TopicGranted {
  user: string;
  vhost: string;
  exchange: string;
  write: string;
  read: string;
}

function Listed<T>(props: {
  title: string;
  sub?: string;
  rows: Rows<T>;
  columns: Column<T>[];
  keyOf: (row: T) => string;
  href?: (row: T) => string;
  add?: { text: string; act: () => void } | undefined;
  empty: JSX.Element;
  children?: JSX.Element;
}): JSX.Element {
  const asked = askedOf("name");
  const wanted = place.value.query.new === "1";
  useEffect(() => {
    if (!wanted) return;
    setQuery({ new: undefined });
    props.add?.act();
  }, [wanted]);
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head title={props.title} sub={<Dots items={[whole(props.rows.total), props.sub]} />}>
        {props.add && (
          <button type="button" class="btn primary" data-new onClick={props.add.act}>
            <Icon name="plus" />
            {props.add.text} <span class="kbd hide-s">N</span>
          </button>
        )}
      </Head>
      {props.children}
      <Grid
        id={props.title}
        label={props.title}
        rows={props.rows}
        asked={asked}
        columns={props.columns}
        keyOf={props.keyOf}
        nameOf={props.keyOf}
        {...(props.href ? { href: props.href } : {})}
        empty={props.empty}
      />
    </main>
  );
}

const removeButton = (label: string, act: () => void): JSX.Element => (
  <button type="button" class="btn quiet s icon" aria-label={label} onClick={act}>
    <Icon name="trash" small />
  </button>
);

export function Users(): JSX.Element {
  const rows = useLocalRows<User>(
    "api/users",
    askedOf("name"),
    (one) => one.name,
    (one, sort) => (sort === "tags" ? one.tags.join() : one.name),
  );
  const permissions = useGet<Granted[]>("api/permissions");
  const columns: Column<User>[] = [
    {
      key: "name",
      title: "User",
      sort: "name",
      phone: "",
      show: (one) => <Name text={one.name} href={to("users", one.name)} />,
    },
    {
      key: "tags",
      title: "Tags",
      width: "30%",
      sort: "tags",
      phone: "l2",
      show: (one) => (
        <span class="row gap1">
          {one.tags.map((tag) => (
            <Chip key={tag}>{tag}</Chip>
          ))}
        </span>
      ),
    },
    {
      key: "vhosts",
      title: "May enter",
      width: "26%",
      show: (one) =>
        permissions.value
          ?.filter((each) => each.user === one.name)
          .map((each) => each.vhost)
          .join(", ") ?? "",
    },
    {
      key: "password",
      title: "Password",
      width: "110px",
      show: (one) => (one.password_hash ? "set" : <span class="muted">none</span>),
    },
  ];
  return (
    <Listed
      title="Users"
      rows={rows}
      columns={columns}
      keyOf={(one) => one.name}
      href={(one) => to("users", one.name)}
      add={{ text: "Add user", act: () => showDialog(() => <UserForm then={rows.reload} />) }}
      empty={<Empty icon="user" title="There are no users" />}
    />
  );
}

function UserForm({ user, then }: { user?: User; then: () => void }): JSX.Element {
  const [draft, setDraft, clear] = useDraft(`user:${user?.name ?? ""}`, {
    name: user?.name ?? "",
    tags: user?.tags ?? ([] as string[]),
  });
  const [password, setPassword] = useState("");
  const [keep, setKeep] = useState(user !== undefined);
  const send = async () => {
    const secret = keep && user ? { password_hash: user.password_hash } : { password };
    await put(path("users", draft.name), { ...secret, tags: draft.tags });
    clear();
    then();
  };
  return (
    <FormDialog
      title={user ? `Change ${user.name}` : "Add user"}
      verb={user ? "Save" : "Add user"}
      send={send}
      disabled={!draft.name || (!keep && !password)}
      doneText={`${draft.name} ${user ? "saved" : "added"}`}
    >
      {!user && <Input label="Name" value={draft.name} onInput={(name) => setDraft({ ...draft, name })} focus />}
      {user && <Check label="Keep the password" checked={keep} onChange={setKeep} />}
      {!keep && (
        <Input label="Password" type="password" value={password} onInput={setPassword} autocomplete="new-password" />
      )}
      <fieldset class="field">
        <legend class="label">Tags</legend>
        {TAGS.map((tag) => (
          <Check
            key={tag}
            label={tag}
            checked={draft.tags.includes(tag)}
            onChange={(on) =>
              setDraft({ ...draft, tags: on ? [...draft.tags, tag] : draft.tags.filter((one) => one !== tag) })
            }
          />
        ))}
      </fieldset>
    </FormDialog>
  );
}

export function UserPage({ name }: { name: string }): JSX.Element {
  const user = useGet<User>(path("users", name));
  const permissions = useGet<Granted[]>(path("users", name, "permissions"));
  const topics = useGet<TopicGranted[]>(path("users", name, "topic-permissions"));
  const drop = () =>
    confirmDestruction({
      title: `Delete the user ${name}?`,
      verb: "Delete user",
      what: [{ name, loss: (user.value?.tags ?? []).join(", ") }],
      note: "Its connections are closed. This cannot be undone.",
      action: async () => {
        await remove(path("users", name));
        location.hash = to("users");
      },
      doneText: `${name} deleted`,
    });
  const revoke = (one: Granted) =>
    confirmDestruction({
      title: `Revoke ${name}'s permissions in ${one.vhost}?`,
      verb: "Revoke",
      what: [{ name: one.vhost, loss: "all rights" }],
      note: "The user may no longer enter this virtual host; its connections there are closed.",
      action: async () => {
        await remove(path("permissions", one.vhost, name));
        permissions.reload();
      },
      doneText: "Permissions revoked",
    });
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head title={name} copy={name} sub={user.value?.tags.map((tag) => <Chip key={tag}>{tag}</Chip>)}>
        {user.value && (
          <button
            type="button"
            class="btn"
            onClick={() => user.value && showDialog(() => <UserForm user={user.value as User} then={user.reload} />)}
          >
            Change…
          </button>
        )}
        <button type="button" class="btn danger" onClick={drop}>
          <Icon name="trash" />
          Delete…
        </button>
      </Head>
      <Shown of={user} what="The user">
        {(one) => (
          <div class="grid">
            <Card
              class="c8 clip"
              title="Permissions"
              note={
                <button
                  type="button"
                  class="btn s"
                  onClick={() => showDialog(() => <PermissionForm user={name} then={permissions.reload} />)}
                >
                  <Icon name="plus" small />
                  Grant…
                </button>
              }
            >
              {permissions.value?.length ? (
                <table class="table list">
                  <thead>
                    <tr>
                      <th>vhost</th>
                      <th>Configure</th>
                      <th>Write</th>
                      <th>Read</th>
                      <th class="w-act">
                        <span class="hidden-text">Actions</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {permissions.value.map((each) => (
                      <tr key={each.vhost}>
                        <td class="strong">{each.vhost}</td>
                        <td class="mono gone">{each.configure}</td>
                        <td class="mono gone">{each.write}</td>
                        <td class="mono gone">{each.read}</td>
                        <td class="num">{removeButton(`Revoke in ${each.vhost}`, () => revoke(each))}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              ) : (
                <Empty icon="key" title="It may enter no virtual host" />
              )}
            </Card>
            <div class="c4 stack">
              <Card title="Limits">
                <div class="pad">
                  {Object.keys(one.limits).length ? (
                    <Facts rows={Object.entries(one.limits).map(([key, value]) => [key, whole(value)])} />
                  ) : (
                    <p class="muted">None.</p>
                  )}
                </div>
              </Card>
              <Card title="Topic permissions">
                <div class="pad">
                  {topics.value?.length ? (
                    <Facts
                      rows={topics.value.map((each) => [
                        `${each.vhost}: ${each.exchange}`,
                        <code key="t">{`write ${each.write}, read ${each.read}`}</code>,
                      ])}
                    />
                  ) : (
                    <p class="muted">None: any routing key, where the rights allow the exchange.</p>
                  )}
                </div>
              </Card>
            </div>
          </div>
        )}
      </Shown>
    </main>
  );
}

function PermissionForm({ user, then }: { user: string; then: () => void }): JSX.Element {
  const vhosts = session.value?.vhosts ?? ["/"];
  const [draft, setDraft] = useState({
    vhost: scope.value ?? vhosts[0] ?? "/",
    configure: ".*",
    write: ".*",
    read: ".*",
  });
  const { vhost, ...rights } = draft;
  return (
    <FormDialog
      title={`Grant permissions to ${user}`}
      verb="Grant"
      doneText="Permissions granted"
      send={() => put(path("permissions", vhost, user), rights).then(then)}
    >
      <Select
        label="Virtual host"
        value={vhost}
        onChange={(value) => setDraft({ ...draft, vhost: value })}
        options={vhosts.map((name) => [name, name])}
      />
      {(["configure", "write", "read"] as const).map((right) => (
        <Input
          key={right}
          label={right.charAt(0).toUpperCase() + right.slice(1)}
          mono
          value={draft[right]}
          onInput={(value) => setDraft({ ...draft, [right]: value })}
          hint={right === "configure" ? "Regular expression over names; empty for nothing" : undefined}
        />
      ))}
    </FormDialog>
  );
}

interface Vhost {
  name: string;
  description?: string;
  tags?: string[];
  messages?: number;
  messages_ready?: number;
  tracing?: boolean;
  default_queue_type?: string;
}

export function Vhosts(): JSX.Element {
  const rows = useLocalRows<Vhost>(
    "api/vhosts",
    askedOf("name"),
    (one) => one.name,
    (one, sort) => one[sort as keyof Vhost] as string | number,
  );
  const mayChange = isAdministrator.value;
  const drop = (one: Vhost) =>
    confirmDestruction({
      title: `Delete the virtual host ${one.name}?`,
      verb: "Delete virtual host",
      what: [{ name: one.name, loss: plural(one.messages ?? 0, "message") }],
      typed: one.name,
      note: "All its queues, exchanges, policies and permissions go with it, and its connections are closed. This cannot be undone.",
      action: async () => {
        await remove(path("vhosts", one.name));
        rows.reload();
        await load();
      },
      doneText: `${one.name} deleted`,
    });
  const columns: Column<Vhost>[] = [
    {
      key: "name",
      title: "Virtual host",
      sort: "name",
      phone: "",
      show: (one) => <Name text={one.name} href={written(["overview"], { vhost: one.name })} />,
    },
    { key: "description", title: "Description", width: "26%", phone: "l2", show: (one) => one.description ?? "" },
    {
      key: "tags",
      title: "Tags",
      width: "14%",
      narrow: true,
      show: (one) => (
        <span class="row gap1">
          {(one.tags ?? []).map((tag) => (
            <Chip key={tag}>{tag}</Chip>
          ))}
        </span>
      ),
    },
    {
      key: "type",
      title: "Queues are",
      width: "10%",
      narrow: true,
      show: (one) => (one.default_queue_type === "undefined" ? "" : (one.default_queue_type ?? "")),
    },
    {
      key: "messages",
      title: "Messages",
      width: "110px",
      num: true,
      sort: "messages",
      phone: "",
      show: (one) => whole(one.messages ?? 0),
    },
    ...(mayChange
      ? [
          {
            key: "act",
            title: "",
            width: "56px",
            num: true,
            show: (one: Vhost) => removeButton(`Delete ${one.name}`, () => drop(one)),
          },
        ]
      : []),
  ];
  return (
    <Listed
      title="Virtual hosts"
      rows={rows}
      columns={columns}
      keyOf={(one) => one.name}
      add={
        mayChange
          ? { text: "Add virtual host", act: () => showDialog(() => <VhostForm then={rows.reload} />) }
          : undefined
      }
      empty={<Empty icon="vhost" title="There are no virtual hosts" />}
    />
  );
}

function VhostForm({ then }: { then: () => void }): JSX.Element {
  const [draft, setDraft, clear] = useDraft("vhost", { name: "", description: "", tags: "", type: "" });
  const send = async () => {
    await put(path("vhosts", draft.name), {
      description: draft.description,
      tags: draft.tags,
      ...(draft.type ? { default_queue_type: draft.type } : {}),
    });
    clear();
    then();
    await load();
  };
  return (
    <FormDialog
      title="Add virtual host"
      verb="Add virtual host"
      send={send}
      disabled={!draft.name}
      doneText={`${draft.name} added`}
    >
      <Input label="Name" value={draft.name} onInput={(name) => setDraft({ ...draft, name })} focus />
      <Input
        label="Description"
        value={draft.description}
        onInput={(description) => setDraft({ ...draft, description })}
      />
      <Input
        label="Tags"
        value={draft.tags}
        onInput={(tags) => setDraft({ ...draft, tags })}
        hint="With commas between them"
      />
      <Select
        label="Queues are"
        value={draft.type}
        onChange={(type) => setDraft({ ...draft, type })}
        options={[
          ["", "classic, unless they say otherwise"],
          ["quorum", "quorum, unless they say otherwise"],
        ]}
      />
    </FormDialog>
  );
}

interface Limited {
  who: string;
  kind: "vhost" | "user";
  name: string;
  value: number;
}

const LIMITS = { vhost: ["max-connections", "max-queues"], user: ["max-connections", "max-channels"] };

export function Limits(): JSX.Element {
  const vhosts = useGet<{ vhost: string; value: Record<string, number> }[]>("api/vhost-limits");
  const users = useGet<{ user: string; value: Record<string, number> }[]>("api/user-limits");
  const rows: Limited[] = [
    ...(vhosts.value ?? []).flatMap((one) =>
      Object.entries(one.value).map(([name, value]): Limited => ({ who: one.vhost, kind: "vhost", name, value })),
    ),
    ...(users.value ?? []).flatMap((one) =>
      Object.entries(one.value).map(([name, value]): Limited => ({ who: one.user, kind: "user", name, value })),
    ),
  ];
  const reload = () => {
    vhosts.reload();
    users.reload();
  };
  const clear = async (one: Limited) => {
    await attempt("Limit cleared", "Not cleared", () => remove(path(`${one.kind}-limits`, one.who, one.name)));
    reload();
  };
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Head title="Limits" sub={<Dots items={[plural(rows.length, "limit")]} />}>
        <button
          type="button"
          class="btn primary"
          data-new
          onClick={() => showDialog(() => <LimitForm then={reload} />)}
        >
          <Icon name="plus" />
          Set a limit <span class="kbd hide-s">N</span>
        </button>
      </Head>
      <Card class="clip" label="Limits">
        <Shown of={vhosts} what="The limits">
          {() =>
            rows.length ? (
              <table class="table list">
                <thead>
                  <tr>
                    <th>Of</th>
                    <th>Limit</th>
                    <th class="num">Value</th>
                    <th class="w-act">
                      <span class="hidden-text">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((one) => (
                    <tr key={`${one.kind}/${one.who}/${one.name}`}>
                      <td>
                        <span class="strong">{one.who}</span>{" "}
                        <Chip>{one.kind === "vhost" ? "virtual host" : "user"}</Chip>
                      </td>
                      <td class="l2">{one.name}</td>
                      <td class="num">{whole(one.value)}</td>
                      <td class="num gone">{removeButton(`Clear ${one.name} of ${one.who}`, () => void clear(one))}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            ) : (
              <Empty icon="stuck" title="There are no limits">
                <p>Connections and queues of a virtual host, connections and channels of a user.</p>
              </Empty>
            )
          }
        </Shown>
      </Card>
    </main>
  );
}

function LimitForm({ then }: { then: () => void }): JSX.Element {
  const vhosts = session.value?.vhosts ?? [];
  const users = useGet<User[]>("api/users");
  const [kind, setKind] = useState<"vhost" | "user">("vhost");
  const [who, setWho] = useState("");
  const [name, setName] = useState("max-queues");
  const [value, setValue] = useState("");
  const choices = kind === "vhost" ? vhosts : (users.value ?? []).map((one) => one.name);
  const chosen = choices.includes(who) ? who : (choices[0] ?? "");
  const known = LIMITS[kind].includes(name) ? name : (LIMITS[kind][0] ?? "");
  return (
    <FormDialog
      title="Set a limit"
      verb="Set limit"
      disabled={!value}
      doneText="Limit set"
      send={() => put(path(`${kind}-limits`, chosen, known), { value: Number(value.replace(/,/g, "")) }).then(then)}
    >
      <Select
        label="Of a"
        value={kind}
        onChange={setKind}
        options={[
          ["vhost", "Virtual host"],
          ["user", "User"],
        ]}
      />
      <Select label="Which" value={chosen} onChange={setWho} options={choices.map((one) => [one, one])} />
      <Select label="Limit" value={known} onChange={setName} options={LIMITS[kind].map((one) => [one, one])} />
      <Input label="Value" value={value} onInput={setValue} hint="−1 for none" />
    </FormDialog>
  );
}

interface Shovel {
  name: string;
  vhost: string;
  value: Record<string, unknown>;
}

interface ShovelState {
  name: string;
  vhost: string;
  state: string;
  reason?: string;
  timestamp: string;
}

export function Shovels(): JSX.Element {
  const states = useGet<ShovelState[]>(isMonitor.value ? "api/shovels" : null);
  const rows = useLocalRows<Shovel>(
    scope.value === undefined ? "api/parameters/shovel" : path("parameters", "shovel", scope.value),
    askedOf("name"),
    (one) => one.name,
    (one) => one.name,
  );
  const stateOf = (one: Shovel) => states.value?.find((each) => each.name === one.name && each.vhost === one.vhost);
  const end = (one: Shovel, side: "src" | "dest") =>
    String(one.value[`${side}-queue`] ?? one.value[`${side}-exchange`] ?? "");
  const drop = (one: Shovel) =>
    confirmDestruction({
      title: `Delete the shovel ${one.name}?`,
      verb: "Delete shovel",
      what: [{ name: one.name, loss: `${end(one, "src")} → ${end(one, "dest")}` }],
      note: "Messages stay where they are.",
      action: async () => {
        await remove(path("parameters", "shovel", one.vhost, one.name));
        rows.reload();
      },
      doneText: `${one.name} deleted`,
    });
  const columns: Column<Shovel>[] = [
    { key: "name", title: "Shovel", sort: "name", phone: "", show: (one) => <span class="strong">{one.name}</span> },
    { key: "vhost", title: "vhost", width: "12%", show: (one) => one.vhost },
    {
      key: "state",
      title: "State",
      width: "24%",
      phone: "l2",
      show: (one) => {
        const found = stateOf(one);
        return (
          <span title={found?.reason ?? ""}>
            <Pill kind={found?.state === "terminated" ? "bad" : found?.state === "running" ? "" : "warn"}>
              {found ? (found.reason ? `${found.state}: ${found.reason}` : found.state) : "unknown"}
            </Pill>
          </span>
        );
      },
    },
    { key: "from", title: "From", width: "20%", show: (one) => end(one, "src") },
    { key: "to", title: "To", width: "20%", show: (one) => end(one, "dest") },
    ...(isPolicymaker.value
      ? [
          {
            key: "act",
            title: "",
            width: "56px",
            num: true,
            show: (one: Shovel) => removeButton(`Delete ${one.name}`, () => drop(one)),
          },
        ]
      : []),
  ];
  return (
    <Listed
      title="Shovels"
      rows={rows}
      columns={columns}
      keyOf={(one) => `${one.vhost}/${one.name}`}
      add={
        isPolicymaker.value
          ? { text: "Add shovel", act: () => showDialog(() => <ShovelForm then={rows.reload} />) }
          : undefined
      }
      empty={
        <Empty icon="shovel" title="There are no shovels">
          <p>A shovel moves messages from a queue or exchange to another, here or in another broker.</p>
        </Empty>
      }
    />
  );
}

function ShovelForm({ then }: { then: () => void }): JSX.Element {
  const vhosts = session.value?.permissions.map((one) => one.vhost) ?? ["/"];
  const [draft, setDraft, clear] = useDraft("shovel", {
    name: "",
    vhost: scope.value ?? vhosts[0] ?? "/",
    from: "",
    to: "",
    once: false,
  });
  // Addresses may have passwords in them, so they are not kept.
  const [source, setSource] = useState("amqp://");
  const [target, setTarget] = useState("amqp://");
  const send = async () => {
    const value = {
      "src-protocol": "amqp091",
      "dest-protocol": "amqp091",
      "src-uri": source,
      "dest-uri": target,
      "src-queue": draft.from,
      "dest-queue": draft.to,
      "ack-mode": "on-confirm",
      "src-delete-after": draft.once ? "queue-length" : "never",
    };
    await put(path("parameters", "shovel", draft.vhost, draft.name), { value });
    clear();
    then();
  };
  return (
    <FormDialog
      title="Add shovel"
      verb="Add shovel"
      wide
      send={send}
      disabled={!draft.name || !draft.from || !draft.to}
      doneText={`${draft.name} added`}
    >
      <Input label="Name" value={draft.name} onInput={(name) => setDraft({ ...draft, name })} focus />
      {vhosts.length > 1 && (
        <Select
          label="Virtual host"
          value={draft.vhost}
          onChange={(vhost) => setDraft({ ...draft, vhost })}
          options={vhosts.map((name) => [name, name])}
        />
      )}
      <Input label="From broker" mono value={source} onInput={setSource} hint="amqp:// is this broker" />
      <Input label="From queue" value={draft.from} onInput={(from) => setDraft({ ...draft, from })} />
      <Input label="To broker" mono value={target} onInput={setTarget} />
      <Input label="To queue" value={draft.to} onInput={(value) => setDraft({ ...draft, to: value })} />
      <Check
        label="Stop when what is there now is moved"
        checked={draft.once}
        onChange={(once) => setDraft({ ...draft, once })}
      />
    </FormDialog>
  );
}

interface Flag {
  name: string;
  desc: string;
  state: string;
  stability: string;
}

export function Features(): JSX.Element {
  const rows = useLocalRows<Flag>(
    "api/feature-flags",
    askedOf("name"),
    (one) => one.name,
    (one, sort) => one[sort as keyof Flag],
  );
  const columns: Column<Flag>[] = [
    {
      key: "name",
      title: "Feature",
      sort: "name",
      phone: "",
      width: "28%",
      show: (one) => <span class="strong">{one.name}</span>,
    },
    { key: "desc", title: "What it is", phone: "l2", show: (one) => one.desc },
    { key: "state", title: "State", width: "120px", sort: "state", phone: "", show: (one) => <Pill>{one.state}</Pill> },
  ];
  return (
    <Listed
      title="Features"
      rows={rows}
      columns={columns}
      keyOf={(one) => one.name}
      empty={<Empty icon="feature" title="There are no feature flags" />}
    />
  );
}
