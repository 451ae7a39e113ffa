// Every page as it looks, light and dark, wide and on a phone, with a broker that has something to show; and what axe-core says
// of it. The pictures are kept in PICTURES, for people to look at; with LEVERET_DOCS two of them go into docs/.

import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WORKER } from "./clients";
import { Broker, launch, open, PICTURES, picture, said, signIn, type Watched } from "./support";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LONG = "webhooks.partner-eu-central-1.acme-logistics-international.delivery-status-updated.v2";
const QUEUES = ["invoices.render", "email.newsletter", "search.reindex", "payments.capture", LONG];

const broker = new Broker();
let browser: Browser;
let client: ChildProcess;
let connection = "";

async function furnish(): Promise<void> {
  await broker.do("PUT", "/api/exchanges/%2F/orders", { type: "topic", durable: true });
  await broker.do("PUT", "/api/exchanges/%2F/events", { type: "topic", durable: true });
  await broker.do("PUT", "/api/queues/%2F/orders.dlq", { durable: true });
  for (const name of QUEUES) {
    await broker.do("PUT", `/api/queues/%2F/${name}`, {
      durable: true,
      arguments: { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dlq", "x-max-length": 5000 },
    });
  }
  for (const [name, key] of [
    ["invoices.render", "order.paid.#"],
    ["email.newsletter", "order.created.#"],
    ["payments.capture", "payment.*"],
  ]) {
    await broker.do("POST", `/api/bindings/%2F/e/orders/q/${name}`, { routing_key: key });
  }
  await broker.do("POST", "/api/bindings/%2F/e/orders/e/events", { routing_key: "#" });
  await broker.do("POST", "/api/bindings/%2F/e/events/q/search.reindex", { routing_key: "order.*.#" });
  await broker.do("PUT", "/api/policies/%2F/invoices-limit", {
    pattern: "^invoices\\.",
    definition: { "max-length": 3000, overflow: "reject-publish" },
    priority: 10,
    "apply-to": "queues",
  });
  await broker.do("PUT", "/api/users/mara", { password: "secret", tags: "monitoring" });
  for (let number = 0; number < 12; number++) {
    const body = JSON.stringify({
      order_id: `o-${88200 + number}`,
      customer: { id: 48120 + number, vat_id: null },
      total: 129.5,
      paid: number % 2 === 0,
    });
    const properties = {
      content_type: "application/json",
      delivery_mode: 2,
      headers: { attempt: number, error: "ValidationError: customer.vat_id is required" },
    };
    for (const name of ["invoices.render", "search.reindex"]) await broker.publish(name, body, properties);
  }
  await broker.do("POST", "/api/queues/%2F/search.reindex/get", {
    count: 8,
    ackmode: "reject_requeue_false",
    encoding: "auto",
  });
  await broker.do("POST", "/api/queues/%2F/invoices.render/get", {
    count: 3,
    ackmode: "reject_requeue_false",
    encoding: "auto",
  });
  client = broker.client(WORKER, "email.newsletter", "orders", "order.created.eu");
  await said(client);
  connection = (await broker.get<{ name: string }[]>("/api/connections"))[0]?.name ?? "";
}

beforeAll(async () => {
  await broker.start();
  await furnish();
  browser = await launch();
});

afterAll(async () => {
  client?.kill();
  await browser?.close();
  await broker.end();
});

const PAGES: [string, () => string][] = [
  ["overview", () => "overview"],
  ["queues", () => "queues"],
  ["queue", () => "queues/%2F/invoices.render"],
  ["messages", () => "queues/%2F/orders.dlq?tab=messages&message=2"],
  ["publish", () => "queues/%2F/invoices.render?tab=publish"],
  ["exchanges", () => "exchanges"],
  ["exchange", () => "exchanges/%2F/orders?key=order.created.eu"],
  ["bindings", () => "bindings"],
  ["topology", () => "topology"],
  ["dead-letters", () => "dead-letters"],
  ["connections", () => "connections"],
  ["connection", () => `connections/${encodeURIComponent(connection)}`],
  ["channels", () => "channels"],
  ["channel", () => `channels/${encodeURIComponent(`${connection} (1)`)}`],
  ["consumers", () => "consumers"],
  ["nodes", () => "nodes"],
  ["log", () => "log"],
  ["policies", () => "policies?edit=invoices-limit&in=%2F"],
  ["users", () => "users"],
  ["user", () => "users/guest"],
  ["vhosts", () => "vhosts"],
  ["shovels", () => "shovels"],
  ["limits", () => "limits"],
  ["definitions", () => "definitions"],
  ["features", () => "features"],
];

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe-core finds serious: rule, and the first element. */
async function seriousFaults(page: Page): Promise<string[]> {
  const found = (await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)",
  )) as Violation[];
  return found
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes[0]?.html} ${one.nodes[0]?.failureSummary}`);
}

async function settled(page: Page): Promise<void> {
  await page.locator("h1").first().waitFor();
  await expect.poll(() => page.locator(".late, tr[aria-busy]").count()).toBe(0);
}

const sideways = (page: Page) =>
  page.evaluate(
    () =>
      document.documentElement.scrollWidth > innerWidth ||
      (document.querySelector(".main:not(.full)")?.scrollWidth ?? 0) >
        (document.querySelector(".main:not(.full)")?.clientWidth ?? 0),
  );

describe.each([
  ["wide", "light"],
  ["wide", "dark"],
  ["phone", "light"],
  ["phone", "dark"],
] as const)("%s, %s", (width, theme) => {
  let watched: Watched;

  beforeAll(async () => {
    watched = await open(browser, broker, { dark: theme === "dark", phone: width === "phone" });
    watched.page.setDefaultTimeout(15_000);
    await watched.page.goto("/");
    await watched.page.getByLabel("Username").waitFor();
    await picture(watched.page, `sign-in-${width}-${theme}`);
    await signIn(watched.page);
    // As a tool would: the page's own policy lets no other script in.
    await watched.page.evaluate(AXE);
  });

  afterAll(() => watched?.context.close());

  test.each(PAGES)("%s", async (name, address) => {
    const { page } = watched;
    await page.evaluate((to) => {
      location.hash = to;
    }, `/${address()}`);
    await settled(page);
    await picture(page, `${name}-${width}-${theme}`);
    expect(await sideways(page)).toBe(false);
    expect(await seriousFaults(page)).toEqual([]);
    expect(watched.faults).toEqual([]);
  });
});

test("dialogs and the palette have nothing serious either", async () => {
  const { page, context } = await open(browser, broker);
  await signIn(page);
  await page.evaluate(AXE);
  await page.evaluate(() => {
    location.hash = "/queues";
  });
  await settled(page);
  await page.keyboard.press("n");
  await page.locator(".dialog").waitFor();
  await picture(page, "declare-wide-light");
  expect(await seriousFaults(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("inv");
  await page.locator(".palette li", { hasText: "invoices.render" }).first().waitFor();
  await picture(page, "palette-wide-light");
  expect(await seriousFaults(page)).toEqual([]);
  await context.close();
});

test.runIf(process.env.LEVERET_DOCS)("the pictures of the README", { timeout: 60_000 }, async () => {
  const docs = resolve(import.meta.dirname, "../../../docs");
  const { page, context } = await open(browser, broker);
  await signIn(page);
  await page.setViewportSize({ width: 1200, height: 760 });
  // Until there is something in the charts.
  await page.waitForTimeout(25_000);
  await page.evaluate(() => {
    location.hash = "/overview?range=1m";
  });
  await settled(page);
  await page.waitForTimeout(3_000);
  await page.screenshot({ path: resolve(docs, "page-overview.png") });
  await page.evaluate(() => {
    location.hash = "/queues/%2F/orders.dlq?tab=messages&message=2";
  });
  await settled(page);
  await page.screenshot({ path: resolve(docs, "page-messages.png") });
  await context.close();
});

test("where the pictures are", () => {
  console.log(`pictures of each page: ${PICTURES}`);
});
