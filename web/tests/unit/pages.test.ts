import { describe, expect, test } from "vitest";
import { differences } from "../../src/pages/difference";
import { wordsOf } from "../../src/pages/exchange";
import { line, parseLines } from "../../src/pages/export";
import { connected, pictureOf } from "../../src/pages/topology";
import { top } from "../../src/ui/chart";
import { rank } from "../../src/ui/palette";

const marks = (pattern: string, key: string) => wordsOf(pattern, key).map((one) => one.kind);

describe("the words of a pattern", () => {
  test.each([
    ["order.created.#", "order.created.eu", ["hit", "hit", "hit"]],
    ["order.paid.#", "order.created.eu", ["hit", "miss", ""]],
    ["#.eu", "order.created.eu", ["hit", "hit"]],
    ["*.created", "order.created", ["hit", "hit"]],
    ["payment.*", "", ["miss", ""]],
  ])("%s and %s", (pattern, key, kinds) => expect(marks(pattern, key)).toEqual(kinds));
});

describe("a file of messages", () => {
  const message = {
    position: 0,
    payload_bytes: 1,
    redelivered: false,
    exchange: "x",
    routing_key: "k",
    properties: { headers: { a: 1 } },
    payload: "p\n",
    payload_encoding: "string" as const,
  };

  test("has one a line, and comes back", () => {
    expect(
      parseLines(`${line(message)}\n\n${line({ ...message, payload: "/w==", payload_encoding: "base64" })}\n`),
    ).toEqual([
      { routing_key: "k", properties: { headers: { a: 1 } }, payload: "p\n", payload_encoding: "string" },
      { routing_key: "k", properties: { headers: { a: 1 } }, payload: "/w==", payload_encoding: "base64" },
    ]);
  });

  test("says which line is none", () => {
    expect(() => parseLines('{"payload":""}\n{')).toThrow("Line 2 is not JSON.");
    expect(() => parseLines("5")).toThrow("Line 1 has no payload.");
  });
});

test("definitions differ by what a file adds and changes, whatever the order of keys", () => {
  const now = {
    queues: [{ name: "a", vhost: "/", durable: true, arguments: {} }],
    users: [{ name: "guest", tags: ["administrator"] }],
  };
  const next = {
    queues: [
      { vhost: "/", durable: true, name: "a" },
      { name: "b", vhost: "/" },
    ],
    users: [{ name: "guest", tags: [] }],
    rabbit_version: "3.13",
  };
  expect(differences(now, next).map(({ section, name, kind }) => [section, name, kind])).toEqual([
    ["queues", "/ · b", "added"],
    ["users", "guest", "changed"],
  ]);
});

test("names are ranked by prefix, beginning of a word, anywhere", () => {
  expect(["invoices", "eu.invoices", "reinvent", "other"].map((name) => rank(name, "inv"))).toEqual([0, 1, 2, 3]);
});

test("a scale ends above its lines, and above a limit that is near", () => {
  expect([top(0, undefined), top(447_000, undefined), top(341_208, 500_000), top(10, 500_000)]).toEqual([
    4, 600_000, 600_000, 20,
  ]);
});

describe("the topology", () => {
  const exchange = (name: string, args = {}) => ({
    name,
    vhost: "/",
    type: "topic",
    durable: true,
    auto_delete: false,
    internal: false,
    arguments: args,
  });
  const queue = (name: string, args = {}) => ({
    name,
    vhost: "/",
    type: "classic",
    durable: true,
    auto_delete: false,
    exclusive: false,
    arguments: args,
    node: "",
    policy: null,
    operator_policy: null,
    messages: 1,
    messages_ready: 1,
    messages_unacknowledged: 0,
    consumers: 0,
    consumers_paused: false,
    consumer_capacity: 0,
  });
  const binding = (source: string, destination: string, kind: "queue" | "exchange" = "queue") => ({
    source,
    vhost: "/",
    destination,
    destination_type: kind,
    routing_key: "k",
    arguments: {},
    properties_key: "k",
  });
  const picture = pictureOf(
    [exchange(""), exchange("a"), exchange("b")],
    [queue("q", { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead" }), queue("dead"), queue("alone")],
    [binding("", "q"), binding("a", "b", "exchange"), binding("b", "q"), binding("a", "gone")],
  );

  test("has bindings between what is there, and ways of dead letters", () => {
    expect(picture.edges.map((edge) => [edge.from, edge.to, edge.dead])).toEqual([
      ["x/a", "x/b", false],
      ["x/b", "q/q", false],
      ["q/q", "q/dead", true],
    ]);
  });

  test("is cut down to what is connected to a name", () => {
    expect(connected(picture, "dead", false).vertices.map((one) => one.id)).toEqual(["x/a", "x/b", "q/q", "q/dead"]);
    expect(connected(picture, "alone", true).vertices.map((one) => one.id)).toEqual(["q/alone"]);
  });
});
