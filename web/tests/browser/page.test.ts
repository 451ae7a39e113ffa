// What an operator does, in a real browser, beside what the API then says.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { WORKER } from "./clients";
import { Broker, EVIL, launch, open, said, signIn, type Watched } from "./support";

const broker = new Broker();
let browser: Browser;
let watched: Watched;
let page: Page;

beforeAll(async () => {
  await broker.start();
  browser = await launch();
  watched = await open(browser, broker);
  page = watched.page;
  page.setDefaultTimeout(8_000);
  await signIn(page);
});

afterAll(async () => {
  await browser?.close();
  await broker.end();
});

// Nothing a test does may be an error of a script, a dialog, or something that the policy refuses.
afterEach(() => expect(watched.faults.splice(0)).toEqual([]));

const visit = async (hash: string): Promise<void> => {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
};

interface Queue {
  messages: number;
  messages_ready: number;
  consumers_paused: boolean;
  policy: string | null;
}

const queue = (name: string) => broker.get<Queue>(`/api/queues/%2F/${encodeURIComponent(name)}`);
const declare = (name: string, args: Record<string, unknown> = {}) =>
  broker.do("PUT", `/api/queues/%2F/${encodeURIComponent(name)}`, { durable: true, arguments: args });
const saysToast = (text: string) => page.locator(".toast", { hasText: text }).first().waitFor();
const dialog = () => page.locator(".dialog");

describe("what is served", () => {
  test("is the page's own, without anything inline", async () => {
    const answer = await fetch(`${broker.http}/`);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'self'");
    expect(policy).not.toContain("unsafe");
    const html = await answer.text();
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=|https?:\/\//);
  });

  test("is at most 200 kB of compressed script and style", () => {
    const folder = resolve(import.meta.dirname, "../../../src/leveret/management/page/assets");
    const sizes = readdirSync(folder).map((name) => gzipSync(readFileSync(join(folder, name)), { level: 9 }).length);
    expect(sizes.length).toBeGreaterThan(1);
    expect(sizes.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(200_000);
  });
});

describe("signing in", () => {
  test("says in words what is wrong, and goes on where one wanted to be", async () => {
    const other = await open(browser, broker);
    await other.page.goto("/#/queues?q=nothing");
    await other.page.getByLabel("Username").fill("guest");
    await other.page.getByLabel("Password", { exact: true }).fill("wrong");
    await other.page.keyboard.press("Enter");
    await other.page.getByText("Wrong username or password.").waitFor();
    await other.page.getByLabel("Password", { exact: true }).fill("guest");
    await other.page.keyboard.press("Enter");
    await other.page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    expect(await other.page.locator("[data-filter]").inputValue()).toBe("nothing");
    expect(
      await other.page.evaluate(() => JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie),
    ).not.toContain("guest");
    await other.page.getByRole("button", { name: /Signed in as guest/ }).click();
    await other.page.getByRole("menuitem", { name: "Sign out" }).click();
    await other.page.getByRole("heading", { name: "Sign in to Leveret" }).waitFor();
    await other.page.reload();
    await other.page.getByRole("heading", { name: "Sign in to Leveret" }).waitFor();
    expect(other.faults).toEqual([]);
    await other.context.close();
  });
});

describe("queues", () => {
  test("are declared by keyboard, and what was typed survives a reload", async () => {
    await visit("/queues");
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    await page.keyboard.press("n");
    await dialog().getByLabel("Name", { exact: true }).fill("page.made");
    await page.reload();
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    await page.keyboard.press("n");
    expect(await dialog().getByLabel("Name", { exact: true }).inputValue()).toBe("page.made");
    await dialog().getByRole("button", { name: "Add an argument" }).click();
    await dialog().getByLabel("Name of an argument 1").fill("x-max-length");
    await dialog().getByLabel("Value of x-max-length").fill("1,000");
    await page.keyboard.press("Control+Enter");
    await saysToast("page.made declared");
    await page.getByRole("link", { name: "page.made" }).waitFor();
    expect(await broker.get("/api/queues/%2F/page.made")).toMatchObject({
      durable: true,
      arguments: { "x-max-length": 1000, "x-queue-type": "classic" },
    });
  });

  test("that cannot be declared say why, and keep what was typed", async () => {
    await page.keyboard.press("n");
    await dialog().getByLabel("Name", { exact: true }).fill("amq.mine");
    await dialog().getByRole("button", { name: "Declare queue" }).click();
    await dialog().getByRole("alert").getByText("amq.").waitFor();
    expect(await dialog().getByLabel("Name", { exact: true }).inputValue()).toBe("amq.mine");
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
  });

  test("are filtered by text and pattern, with all of it in the address", async () => {
    for (const name of ["filter.one", "filter.two", "other"]) await declare(name);
    await visit("/queues");
    await page.keyboard.press("/");
    await page.keyboard.type("filter");
    await page.locator(".tfoot", { hasText: /^2 of/ }).waitFor();
    await page.getByRole("button", { name: "Regular expression" }).click();
    await page.locator("[data-filter]").fill("^filter\\.(two|x)$");
    await page.locator(".tfoot", { hasText: /^1 of/ }).waitFor();
    const address = page.url();
    await page.locator("[data-filter]").fill("(");
    await page.getByRole("alert").getByText("bad regular expression").waitFor();
    expect(await page.getByRole("link", { name: "filter.two" }).count()).toBe(1);
    await visit("/overview");
    await page.goto(address);
    await page.locator(".tfoot", { hasText: /^1 of/ }).waitFor();
  });

  test("are bound, published to and peeked into, which changes nothing", async () => {
    await visit("/queues/%2F/page.made?tab=bindings");
    await page.getByRole("button", { name: "Bind…" }).click();
    await dialog().getByLabel("From exchange").fill("amq.topic");
    await dialog().getByLabel("Routing key").fill("made.#");
    await dialog().getByRole("button", { name: "Bind", exact: true }).click();
    await saysToast("page.made is bound to amq.topic");
    await visit("/exchanges/%2F/amq.topic?tab=publish");
    await page.getByLabel("Routing key").fill("made.here");
    await page.getByRole("button", { name: "Add a header" }).click();
    await page.getByLabel("Name of a header 1").fill("tenant");
    await page.getByLabel("Value of tenant").fill("acme");
    await page.getByLabel("Payload", { exact: true }).fill('{"id": 12345678901234567890, "list": [1, 2]}');
    await page.getByRole("button", { name: "Publish", exact: false }).last().click();
    await saysToast("Message published");
    const before = await broker.get<{ redelivered: boolean }[]>("/api/queues/%2F/page.made/messages");
    await visit("/queues/%2F/page.made?tab=messages");
    await page.getByRole("button", { name: "Message 0, made.here" }).click();
    const drawer = page.locator(".drawer");
    await drawer.getByText("12345678901234567890").waitFor();
    await drawer.getByText("acme").waitFor();
    await drawer.getByRole("button", { name: "Hex" }).click();
    await drawer.getByText("000000").waitFor();
    await page.keyboard.press("Escape");
    await drawer.waitFor({ state: "detached" });
    await page.locator("[data-filter]").fill("acme");
    await page.getByText("1 match in 1 searched").waitFor();
    await page.locator("[data-filter]").fill("nowhere");
    await page.getByText("No message matches").waitFor();
    expect(await broker.get("/api/queues/%2F/page.made/messages")).toEqual(before);
    expect([before.length, before[0]?.redelivered]).toEqual([1, false]);
  });

  test("are paused, moved out of, purged and deleted, each after saying what is lost", async () => {
    await declare("page.target");
    await visit("/queues/%2F/page.made");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await saysToast("Consumers of page.made paused");
    expect((await queue("page.made")).consumers_paused).toBe(true);
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await saysToast("Consumers of page.made resumed");
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Move…" }).click();
    await dialog().getByLabel("Queue", { exact: true }).fill("page.target");
    await dialog().getByRole("button", { name: "Move messages" }).click();
    await saysToast("1 message moved");
    expect([(await queue("page.made")).messages, (await queue("page.target")).messages]).toEqual([0, 1]);
    await visit("/queues/%2F/page.target");
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Purge…" }).click();
    await dialog().getByText("1 ready message").waitFor();
    expect(
      await dialog()
        .getByRole("button", { name: "Cancel" })
        .evaluate((button) => button === document.activeElement),
    ).toBe(true);
    await dialog().getByRole("button", { name: "Purge", exact: true }).click();
    await saysToast("page.target purged");
    expect((await queue("page.target")).messages).toBe(0);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete…" }).click();
    await dialog().getByRole("button", { name: "Delete queue" }).click();
    await saysToast("page.target deleted");
    expect((await broker.ask("GET", "/api/queues/%2F/page.target")).status).toBe(404);
  });

  test("many at once are deleted only when their number is typed", async () => {
    await visit("/queues?q=filter");
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    await page.locator(".tfoot", { hasText: /^2 of/ }).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("2 selected").waitFor();
    await page.getByRole("button", { name: "Delete…" }).click();
    const destroy = dialog().getByRole("button", { name: "Delete 2 queues" });
    expect(await destroy.isDisabled()).toBe(true);
    await dialog().getByLabel("Type 2 queues to confirm").fill("2 queues");
    await destroy.click();
    await saysToast("Deleted: 2 queues");
    expect((await broker.ask("GET", "/api/queues/%2F/filter.one")).status).toBe(404);
  });
});

describe("dead letters", () => {
  test("are grouped, rehearsed and replayed", async () => {
    await declare("picking", { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead" });
    await declare("dead");
    for (const body of ["a", "b", "c"]) await broker.publish("picking", body, { headers: { error: "no vat" } });
    await broker.do("POST", "/api/queues/%2F/picking/get", {
      count: 3,
      ackmode: "reject_requeue_false",
      encoding: "auto",
    });
    await visit("/dead-letters/%2F/dead");
    await page.getByLabel("Select rejected in picking").check();
    await page.getByText("no vat").waitFor();
    await page.getByText(/\+3 on 0 ready/).waitFor();
    expect((await queue("dead")).messages_ready).toBe(3);
    await page.getByRole("button", { name: "Replay 3" }).click();
    await saysToast("3 messages replayed");
    expect([(await queue("dead")).messages_ready, (await queue("picking")).messages_ready]).toEqual([0, 3]);
  });
});

describe("exchanges", () => {
  test("tell where a message would go without publishing it", async () => {
    for (const [name, key] of [
      ["to.created", "order.created.#"],
      ["to.paid", "order.paid.#"],
    ] as const) {
      await declare(name);
      await broker.do("POST", `/api/bindings/%2F/e/amq.topic/q/${name}`, { routing_key: key });
    }
    await visit("/exchanges/%2F/amq.topic");
    await page.getByLabel("Routing key").fill("order.created.eu");
    await page.getByRole("heading", { name: "Goes to 1 queue" }).waitFor();
    expect(await page.locator(".answer li:not(.no)").textContent()).toContain("to.created");
    expect(await page.locator(".answer li.no", { hasText: "to.paid" }).locator(".miss").textContent()).toBe("paid");
    expect((await queue("to.created")).messages).toBe(0);
    expect(page.url()).toContain("key=order.created.eu");
  });
});

describe("administration", () => {
  test("a policy shows what it would change before it is saved", async () => {
    await visit("/policies");
    await page.getByRole("heading", { name: "Policies", exact: true }).waitFor();
    await page.keyboard.press("n");
    const form = page.locator("form.form");
    await form.getByLabel("Name", { exact: true }).fill("short");
    await form.getByLabel("Pattern").fill("^to\\.");
    await form.getByLabel("Name of a key 1").fill("max-length");
    await form.getByLabel("Value of max-length").fill("5");
    await page.getByRole("heading", { name: /^Matches 2 of/ }).waitFor();
    await page.getByText("wins").first().waitFor();
    expect((await queue("to.paid")).policy).toBeNull();
    await form.getByLabel("Pattern").fill("(");
    await page.getByRole("alert").getByText("invalid").waitFor();
    await form.getByLabel("Pattern").fill("^to\\.");
    await form.getByRole("button", { name: "Save" }).click();
    await saysToast("short saved");
    expect((await queue("to.paid")).policy).toBe("short");
  });

  test("a user is added with permissions, and is offered no more than it may do", async () => {
    await visit("/users");
    await page.getByRole("button", { name: "Add user" }).click();
    await dialog().getByLabel("Name", { exact: true }).fill("viewer");
    await dialog().getByLabel("Password", { exact: true }).fill("secret-1");
    await dialog().getByLabel("management").check();
    await dialog().getByRole("button", { name: "Add user" }).click();
    await saysToast("viewer added");
    await visit("/users/viewer");
    await page.getByRole("button", { name: "Grant…" }).click();
    for (const right of ["Configure", "Write"]) await dialog().getByLabel(right).fill("");
    await dialog().getByLabel("Read").fill("^to\\.");
    await dialog().getByRole("button", { name: "Grant" }).click();
    await saysToast("Permissions granted");
    const other = await open(browser, broker);
    await signIn(other.page, "viewer", "secret-1");
    expect(await other.page.getByRole("link", { name: "Users", exact: true }).count()).toBe(0);
    expect(await other.page.getByRole("link", { name: "Log", exact: true }).count()).toBe(0);
    await other.page.goto("/#/queues/%2F/to.paid");
    await other.page.getByRole("button", { name: "More actions" }).click();
    expect(await other.page.getByRole("menuitem", { name: "Purge…" }).count()).toBe(1);
    expect(await other.page.getByRole("menuitem", { name: "Delete…" }).count()).toBe(0);
    expect(other.faults).toEqual([]);
    await other.context.close();
  });

  test("definitions are imported after showing what they add and change", async () => {
    await visit("/definitions");
    const file = {
      queues: [{ name: "from.file", vhost: "/", durable: true, auto_delete: false, arguments: {} }],
      policies: [
        {
          vhost: "/",
          name: "short",
          pattern: "^to\\.",
          definition: { "max-length": 7 },
          priority: 0,
          "apply-to": "queues",
        },
      ],
    };
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "new.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(file)) });
    await page.getByRole("heading", { name: "new.json: 1 thing added, 1 changed" }).waitFor();
    expect((await broker.ask("GET", "/api/queues/%2F/from.file")).status).toBe(404);
    await page.getByRole("button", { name: "Import 2 changes" }).click();
    await saysToast("Definitions imported");
    expect((await broker.ask("GET", "/api/queues/%2F/from.file")).status).toBe(200);
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    const saved = JSON.parse(readFileSync(await (await download).path(), "utf8")) as { queues: { name: string }[] };
    expect(saved.queues.map((one) => one.name)).toContain("from.file");
  });
});

describe("clients", () => {
  test("move the charts, and are closed", async () => {
    await declare("load");
    await broker.do("POST", "/api/bindings/%2F/e/amq.topic/q/load", { routing_key: "load" });
    const client = broker.client(WORKER, "load", "amq.topic", "load");
    let gone = false;
    client.once("exit", () => {
      gone = true;
    });
    client.stderr?.resume();
    try {
      await said(client);
      await visit("/overview?range=1m");
      const canvas = () =>
        page
          .locator("canvas")
          .nth(1)
          .evaluate((one: HTMLCanvasElement) => one.toDataURL());
      await page.locator(".stat", { hasText: "Published" }).locator(".value", { hasText: /[1-9]/ }).waitFor();
      const before = await canvas();
      await expect.poll(canvas, { timeout: 15_000 }).not.toBe(before);
      await visit("/consumers");
      await page.getByRole("link", { name: "worker" }).waitFor();
      const [connection] = await broker.get<{ name: string }[]>("/api/connections");
      await visit(`/connections/${encodeURIComponent(connection?.name ?? "")}`);
      await page.getByRole("button", { name: "Close…" }).click();
      await dialog().getByRole("button", { name: "Close connection" }).click();
      await saysToast("Connection closed");
      await expect.poll(() => gone).toBe(true);
    } finally {
      client.kill();
    }
  });
});

describe("names that would be markup", () => {
  test("stay text everywhere", async () => {
    const name = encodeURIComponent(EVIL);
    await broker.do("PUT", `/api/vhosts/${name}`, { description: EVIL, tags: EVIL });
    await broker.do("PUT", `/api/users/${name}`, { password: "x", tags: "management" });
    await broker.do("PUT", `/api/permissions/${name}/guest`, { configure: ".*", write: ".*", read: ".*" });
    await broker.do("PUT", `/api/permissions/${name}/${name}`, { configure: EVIL, write: ".*", read: ".*" });
    for (const vhost of ["%2F", name]) {
      await broker.do("PUT", `/api/queues/${vhost}/${name}`, {
        durable: true,
        arguments: { "x-dead-letter-exchange": EVIL },
      });
      await broker.do("PUT", `/api/exchanges/${vhost}/${name}`, { type: "topic", durable: true, arguments: {} });
      await broker.do("POST", `/api/bindings/${vhost}/e/${name}/q/${name}`, {
        routing_key: EVIL,
        arguments: { [EVIL]: EVIL },
      });
      await broker.do("PUT", `/api/policies/${vhost}/${name}`, { pattern: "^<img", definition: { "max-length": 9 } });
    }
    const death = [{ reason: EVIL, queue: EVIL, exchange: EVIL, "routing-keys": [EVIL], count: 1 }];
    await broker.publish(
      EVIL,
      EVIL,
      { content_type: EVIL, headers: { [EVIL]: EVIL, error: EVIL, "x-death": death } },
      EVIL,
    );
    const vhost = `vhost=${name}`;
    const places = [
      "overview",
      "queues",
      "exchanges",
      "bindings",
      "topology?all=1",
      "dead-letters",
      "policies",
      "users",
      "vhosts",
      `users/${name}`,
      `queues?${vhost}`,
      `topology?all=1&${vhost}`,
      `queues/%2F/${name}`,
      `queues/%2F/${name}?tab=messages&message=0`,
      `queues/%2F/${name}?tab=bindings`,
      `queues/%2F/${name}?tab=arguments`,
      `exchanges/%2F/${name}?key=${name}`,
      `dead-letters/%2F/${name}`,
      `policies?edit=${name}&in=%2F`,
      "log",
    ];
    for (const place of places) {
      await visit(`/${place}`);
      await page.locator("h1").first().waitFor();
      await page.waitForFunction(() => document.querySelector(".late") === null);
      expect([place, await page.locator("img").count()]).toEqual([place, 0]);
    }
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find or do" }).fill("<img");
    await page.locator(".palette li", { hasText: EVIL }).first().waitFor();
    await page.keyboard.press("Escape");
    await visit(`/queues/%2F/${name}?tab=messages&message=0`);
    expect(await page.locator(".drawer").textContent()).toContain(EVIL);
  });
});

describe("the keyboard", () => {
  test("reaches everything: find, jump, tabs, help", async () => {
    await visit("/overview");
    await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("to.created");
    await page.locator(".palette li", { hasText: "to.created" }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "to.created" }).waitFor();
    await page.getByRole("link", { name: /^Messages/ }).waitFor();
    await page.keyboard.press("]");
    await expect.poll(() => page.url()).toContain("tab=messages");
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.getByRole("heading", { name: "Exchanges", exact: true }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    const inDialog = () => page.evaluate(() => !!document.activeElement?.closest(".dialog"));
    await expect.poll(inDialog).toBe(true);
    await page.keyboard.press("Tab");
    expect(await inDialog()).toBe(true);
    await page.keyboard.press("Escape");
    await page.keyboard.press(".");
    await page.getByRole("button", { name: /^Paused at/ }).waitFor();
    await page.keyboard.press(".");
    await page.getByRole("button", { name: "Live", exact: true }).waitFor();
  });
});

describe("a broker that is restarted", () => {
  test("is said to be away, and the page goes on by itself with what was typed", async () => {
    await visit("/queues/%2F/to.paid?tab=publish");
    await page.getByLabel("Payload", { exact: true }).fill("typed before");
    await broker.stop();
    await page
      .getByRole("alert")
      .getByText(/No connection since/)
      .waitFor();
    await page.getByRole("button", { name: "Not connected" }).waitFor();
    expect(await page.getByLabel("Payload", { exact: true }).inputValue()).toBe("typed before");
    await broker.start();
    await page.getByRole("button", { name: "Live", exact: true }).waitFor();
    await page.getByText(/No connection since/).waitFor({ state: "detached" });
    expect(await page.getByLabel("Payload", { exact: true }).inputValue()).toBe("typed before");
    await page.getByRole("button", { name: "Publish", exact: false }).last().click();
    await saysToast("Message published");
    expect((await queue("to.paid")).messages_ready).toBe(1);
  });
});
