import { describe, expect, test } from "vitest";
import { bytes, duration, plural, rate, short, whole } from "../../src/lib/format";

describe("numbers have a unit and can be compared", () => {
  test.each([
    [0, "0"],
    [0.04, "0"],
    [88.42, "88.4"],
    [999.96, "1,000.0"],
    [1204.4, "1,204"],
  ])("a rate of %s", (value, text) => expect(rate(value)).toBe(text));

  test.each([
    [0, "0"],
    [250, "250"],
    [1200, "1.2 k"],
    [3_400_000, "3.4 M"],
  ])("%s on an axis", (value, text) => expect(short(value)).toBe(text));

  test.each([
    [12, "12 B"],
    [4096, "4.10 kB"],
    [1_310_000_000, "1.31 GB"],
    [412_000_000_000, "412 GB"],
  ])("%s bytes", (value, text) => expect(bytes(value)).toBe(text));

  test.each([
    [800, "1 s"],
    [59_000, "59 s"],
    [18 * 60_000, "18 min"],
    [372 * 60_000, "6 h 12 min"],
    [(42 * 24 + 6) * 3_600_000, "42 d 6 h"],
  ])("%s ms", (value, text) => expect(duration(value)).toBe(text));

  test("one and many", () => {
    expect([whole(1204), plural(1, "queue"), plural(1204, "queue")]).toEqual(["1,204", "1 queue", "1,204 queues"]);
  });
});
