import { describe, expect, test } from "vitest";
import { path, withQuery } from "../../src/lib/api";
import { parse, written } from "../../src/lib/route";

const ODD = "a/b?c=%&#<é> ";

describe("an address", () => {
  test("comes back as it was written, whatever the names are", () => {
    const address = written(["queues", ODD, ODD], { q: ODD, desc: "1" });
    expect(parse(address)).toEqual({ parts: ["queues", ODD, ODD], query: { q: ODD, desc: "1" } });
  });

  test("leaves out what is not set", () => {
    expect(written(["queues"], { q: undefined, sort: "" })).toBe("#/queues");
  });

  test("names the default exchange, which has no name", () => {
    expect(written(["exchanges", "/", ""])).toBe("#/exchanges/%2F/amq.default");
  });

  test("that is damaged is taken as it is", () => {
    expect(parse("#/queues/%E0%A4%A?q=%")).toEqual({ parts: ["queues", "%E0%A4%A"], query: { q: "%" } });
    expect(parse("")).toEqual({ parts: [], query: {} });
  });
});

test("a path of the API quotes each part whole", () => {
  expect(path("queues", "/", ODD)).toBe(`api/queues/%2F/${encodeURIComponent(ODD)}`);
  expect(withQuery("api/queues", { page: 1, name: "", regex: undefined, x: "&" })).toBe("api/queues?page=1&x=%26");
});
