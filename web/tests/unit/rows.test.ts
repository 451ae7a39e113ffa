import { describe, expect, test } from "vitest";
import { arranged } from "../../src/lib/rows";
import { entriesOf, tableOf } from "../../src/ui/table-editor";

const rows = [
  { name: "b2", count: 10 },
  { name: "a10", count: 9 },
  { name: "A2", count: 100 },
];
const asked = { filter: "", regex: false, sort: "", reverse: false };
const names = (change: Partial<typeof asked>) => {
  const found = arranged(
    rows,
    { ...asked, ...change },
    (row) => row.name,
    (row, sort) => (sort === "name" ? row.name : row.count),
  );
  return [found.rows.map((row) => row.name), found.error === undefined];
};

describe("a list", () => {
  test("is filtered by text and by pattern, whatever the case", () => {
    expect(names({ filter: "a" })).toEqual([["a10", "A2"], true]);
    expect(names({ filter: "^a\\d+0$", regex: true })).toEqual([["a10"], true]);
  });

  test("stays as it is while a pattern is not one", () => {
    expect(names({ filter: "(", regex: true })).toEqual([["b2", "a10", "A2"], false]);
  });

  test("is sorted by numbers as numbers, also within names", () => {
    expect(names({ sort: "name" })).toEqual([["A2", "a10", "b2"], true]);
    expect(names({ sort: "count", reverse: true })).toEqual([["A2", "b2", "a10"], true]);
  });
});

describe("a table that is typed", () => {
  const table = { text: "1", number: 1.5, flag: false, list: [1, { a: null }] };

  test("comes back with its types", () => {
    expect(tableOf(entriesOf(table))).toEqual(table);
  });

  test("says which value is none of its type", () => {
    expect(() => tableOf([{ name: "x-max-length", value: "many", kind: "number" }])).toThrow(
      "x-max-length is not a number: many",
    );
    expect(() => tableOf([{ name: "a", value: "{", kind: "json" }])).toThrow("a is not JSON: {");
    expect(tableOf([{ name: " ", value: "", kind: "number" }])).toEqual({});
  });
});
