// A broker of its own, a browser, and the API as any other client would use it.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const ROOT = resolve(import.meta.dirname, "../../..");
const PYTHON = process.env.LEVERET_PYTHON ?? join(ROOT, ".venv/bin/python");
const CHROMIUM = "/usr/bin/chromium";
/** Where the pictures go that are to be looked at. */
export const PICTURES = process.env.LEVERET_PICTURES ?? mkdtempSync(join(tmpdir(), "leveret-page-"));
/** A name that would be markup if it were not text. */
export const EVIL = "<img src=x onerror=alert(1)>";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export class Broker {
  private process: ChildProcess | null = null;
  private readonly folder = mkdtempSync(join(tmpdir(), "leveret-data-"));
  http = "";
  amqp = "";
  private port = "0";

  constructor(private readonly environment: Record<string, string> = {}) {}

  /** Start it, or start it again, at the port it had. */
  async start(): Promise<void> {
    const flags = [
      "-m",
      "leveret",
      "--port",
      "0",
      "--management-port",
      this.port,
      "--data-dir",
      join(this.folder, "data"),
    ];
    const started = spawn(PYTHON, flags, {
      cwd: this.folder,
      env: { ...process.env, LEVERET_PROMETHEUS_PORT: "0", ...this.environment },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.process = started;
    const line = await new Promise<string>((found, failed) => {
      let text = "";
      started.stdout?.on("data", (octets: Buffer) => {
        text += octets.toString();
        if (text.includes("\n")) found(text);
      });
      started.once("exit", (code) => failed(new Error(`the broker has ended with ${code}: ${text}`)));
    });
    const http = /http=(\S+)/.exec(line)?.[1];
    this.amqp = /amqp=(\S+)/.exec(line)?.[1] ?? "";
    if (!http) throw new Error(`the broker does not say where it listens: ${line}`);
    this.port = http.split(":")[1] ?? "0";
    this.http = `http://${http}`;
  }

  async stop(): Promise<void> {
    const running = this.process;
    this.process = null;
    if (!running || running.exitCode !== null) return;
    await new Promise<void>((ended) => {
      running.once("exit", () => ended());
      running.kill("SIGTERM");
    });
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Processor time that it has used, in seconds. */
  async processorTime(): Promise<number> {
    const { readFile } = await import("node:fs/promises");
    const fields = (await readFile(`/proc/${this.process?.pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  async ask(method: string, path: string, body?: unknown, user = "guest:guest"): Promise<Response> {
    return fetch(`${this.http}${path}`, {
      method,
      headers: { Authorization: `Basic ${Buffer.from(user).toString("base64")}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  async get<T>(path: string): Promise<T> {
    const answer = await this.ask("GET", path);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  async do(method: string, path: string, body?: unknown): Promise<void> {
    const answer = await this.ask(method, path, body);
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  async publish(
    queue: string,
    payload: string,
    properties: Record<string, unknown> = {},
    exchange = "amq.default",
  ): Promise<void> {
    await this.do("POST", `/api/exchanges/%2F/${encodeURIComponent(exchange)}/publish`, {
      routing_key: queue,
      payload,
      payload_encoding: "string",
      properties,
    });
  }

  /** A program of a real client, with the broker's address as its first argument; it runs until it is ended. */
  client(code: string, ...more: string[]): ChildProcess {
    return spawn(PYTHON, ["-c", code, `amqp://guest:guest@${this.amqp}/%2F`, ...more], {
      stdio: ["pipe", "pipe", "inherit"],
    });
  }
}

/** A client's first line: it is where it should be. */
export function said(client: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    client.stdout?.once("data", (octets: Buffer) => found(octets.toString().trim()));
    client.once("exit", (code) => failed(new Error(`the client has ended with ${code}`)));
  });
}

export async function launch(): Promise<Browser> {
  if (!existsSync(CHROMIUM)) throw new Error(`${CHROMIUM} is missing; on Debian, as root: apt-get install -y chromium`);
  mkdirSync(PICTURES, { recursive: true });
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS, headless: true });
}

export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** What went wrong in a page: errors of scripts, dialogs that nobody should see, what the policy has refused. */
export interface Watched {
  page: Page;
  context: BrowserContext;
  faults: string[];
}

export async function open(
  browser: Browser,
  broker: Broker,
  options: { dark?: boolean; phone?: boolean; touch?: boolean } = {},
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: options.phone ? PHONE : WIDE,
    hasTouch: options.phone ?? false,
    colorScheme: options.dark ? "dark" : "light",
    baseURL: broker.http,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !text.includes("net::ERR_") && !text.includes("Failed to load resource"))
      faults.push(text);
  });
  return { page, context, faults };
}

export async function signIn(page: Page, name = "guest", password = "guest"): Promise<void> {
  await page.goto("/");
  await page.getByLabel("Username").fill(name);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".app").waitFor();
}

export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}
