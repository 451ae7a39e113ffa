// Ten thousand queues, and what an idle page costs. Measured in processor time, which does not depend on what else the machine does.

import type { Browser, CDPSession } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DECLARE_MANY } from "./clients";
import { Broker, launch, open, said, signIn, type Watched } from "./support";

const COUNT = 10_000;
const broker = new Broker();
let browser: Browser;
let watched: Watched;
let session: CDPSession;

beforeAll(async () => {
  await broker.start();
  const client = broker.client(DECLARE_MANY, String(COUNT));
  await said(client);
  browser = await launch();
  watched = await open(browser, broker);
  await signIn(watched.page);
  session = await watched.context.newCDPSession(watched.page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
});

afterAll(async () => {
  await browser?.close();
  await broker.end();
});

/** Processor time of the page's main thread, in ms. */
async function spent(): Promise<number> {
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find((one) => one.name === "TaskDuration")?.value ?? 0) * 1000;
}

test("10,000 queues are usable at once and scroll without a pause", async () => {
  const { page } = watched;
  const began = await spent();
  await page.evaluate(() => {
    location.hash = "/queues";
  });
  await page.getByRole("link", { name: "many.00000" }).waitFor();
  await page.locator(".tfoot", { hasText: "10,000" }).waitFor();
  expect((await spent()) - began).toBeLessThan(1000);

  // A frame's budget for each step, half of a long task: nothing that a hand would feel.
  const steps = 60;
  const before = await spent();
  for (let step = 1; step <= steps; step++) {
    await page.evaluate((to) => {
      const main = document.querySelector(".main");
      if (main) main.scrollTop = to;
      return new Promise((frame) => requestAnimationFrame(() => frame(null)));
    }, step * 3000);
  }
  expect(((await spent()) - before) / steps).toBeLessThan(25);
  expect(await page.locator("tbody tr").count()).toBeLessThan(120);

  await page.evaluate(() => {
    const main = document.querySelector(".main");
    if (main) main.scrollTop = main.scrollHeight;
  });
  await page.getByRole("link", { name: "many.09999" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("many.0500");
  await page.locator(".tfoot", { hasText: /^10 of 10,000/ }).waitFor();
  expect(watched.faults).toEqual([]);
});

test("an idle page costs the broker under 2 % of a core", async () => {
  const { page } = watched;
  await page.evaluate(() => {
    location.hash = "/overview";
  });
  await page.getByRole("heading", { name: "Overview", exact: true }).waitFor();
  await page.waitForTimeout(2_000);
  const [without, withPage] = await costs();
  console.log(
    `the broker's processor: ${(without * 100).toFixed(2)} % without a page, ${(withPage * 100).toFixed(2)} % with one`,
  );
  expect(withPage - without).toBeLessThan(0.02);
});

const SPAN_MS = 10_000;

/** What part of a core the broker uses, with the page hidden by another site, and with it. */
async function costs(): Promise<[number, number]> {
  const during = async (): Promise<number> => {
    const before = await broker.processorTime();
    await watched.page.waitForTimeout(SPAN_MS);
    return ((await broker.processorTime()) - before) / (SPAN_MS / 1000);
  };
  const withPage = await during();
  await watched.page.goto("about:blank");
  return [await during(), withPage];
}
