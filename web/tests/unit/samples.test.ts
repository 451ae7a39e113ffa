import { describe, expect, test } from "vitest";
import { joined, lastMinute, lengths, perSecond, rates } from "../../src/lib/samples";

const details = (...samples: [number, number][]) => ({
  rate: 0,
  samples: samples.map(([timestamp, sample]) => ({ timestamp, sample })).reverse(),
});

describe("samples", () => {
  test("of lengths are shown as they are, oldest first", () => {
    expect(lengths([details([1000, 5], [6000, 7]), undefined])).toEqual({
      times: [1, 6],
      lines: [
        [5, 7],
        [null, null],
      ],
    });
  });

  test("of counters are what they grow by in a second", () => {
    const found = rates([details([0, 0], [5000, 50], [10000, 50])]);
    expect(found).toEqual({ times: [5, 10], lines: [[10, 0]] });
  });

  test("of a counter that has begun anew were not measured", () => {
    expect(rates([details([0, 90], [5000, 10])]).lines).toEqual([[null]]);
    expect([perSecond(5, 9, 1000), perSecond(9, 5, 2000), perSecond(undefined, 5, 2000)]).toEqual([null, 2, null]);
  });
});

test("the last minute is joined to what was before it", () => {
  const counts = (time: number, ready: number) => ({
    time,
    message_stats: {},
    queue_totals: { messages_ready: ready },
    object_totals: {},
  });
  const newer = lastMinute(
    [counts(1_000, 0), counts(61_000, 1), counts(62_000, 2), counts(63_000, 3), counts(64_000, 4)],
    64_000,
    (one) => [one.queue_totals.messages_ready ?? 0],
  );
  expect(newer).toEqual({ times: [62, 63, 64], lines: [[2, 3, 4]] });
  const older = { times: [50, 55, 60, 65], lines: [[9, 8, 7, 6]] };
  expect(joined(older, newer)).toEqual({ times: [50, 55, 60, 62, 63, 64], lines: [[9, 8, 7, 2, 3, 4]] });
  expect(joined(older, { times: [], lines: [[]] })).toBe(older);
});
