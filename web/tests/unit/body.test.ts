import { describe, expect, test } from "vitest";
import { hexLines, jsonLines, messagePack, octetsOf, textOf } from "../../src/lib/body";

const flat = (text: string) => jsonLines(text)?.map((line) => line.map((part) => part.text).join(""));
const packed = (...octets: number[]) => messagePack(new Uint8Array(octets));

describe("JSON", () => {
  test("is indented, and keeps every digit of a number", () => {
    expect(flat('{"id":12345678901234567890,"list":[1.50,{}],"none":null}')).toEqual([
      "{",
      '  "id": 12345678901234567890,',
      '  "list": [',
      "    1.50,",
      "    {}",
      "  ],",
      '  "none": null',
      "}",
    ]);
  });

  test("has keys, strings, numbers and words apart", () => {
    expect(
      jsonLines('{"a":"{:,}","b":true}')
        ?.flat()
        .filter((part) => part.kind && part.kind !== "p"),
    ).toEqual([
      { kind: "k", text: '"a"' },
      { kind: "s", text: '"{:,}"' },
      { kind: "k", text: '"b"' },
      { kind: "w", text: "true" },
    ]);
  });

  test("is not what only looks so", () => {
    expect([jsonLines("{'a': 1}"), jsonLines(""), jsonLines("plain")]).toEqual([null, null, null]);
  });
});

describe("octets", () => {
  test("are text if they are UTF-8", () => {
    expect(textOf(octetsOf("héllo", "string"))).toBe("héllo");
    expect(textOf(octetsOf("/w==", "base64"))).toBeNull();
  });

  test("are shown sixteen a line", () => {
    const lines = hexLines(octetsOf("0123456789abcdef\u0000", "string")).map((line) =>
      line.map((part) => part.text).join(""),
    );
    expect(lines[0]).toBe("000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef");
    expect(lines[1]?.trimEnd()).toBe(`000010  00${" ".repeat(47)}·`.trimEnd());
  });
});

describe("MessagePack", () => {
  test.each([
    [[0x05], "5"],
    [[0xff], "-1"],
    [[0xc3], "true"],
    [[0xa3, 0x61, 0x62, 0x63], '"abc"'],
    [[0x92, 0x01, 0xc0], "[1,null]"],
    [[0x81, 0xa1, 0x61, 0xcc, 0xff], '{"a":255}'],
    [[0x81, 0x01, 0x02], '{"1":2}'],
    [[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "18446744073709551615"],
    [[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], "1.5"],
    [[0xc4, 0x01, 0xff], '"base64:/w=="'],
    [[0xd4, 0x01, 0x00], '{"extension":1,"data":"base64:AA=="}'],
  ])("%j is %s", (octets, text) => expect(packed(...octets)).toBe(text));

  test("is not what ends too soon, goes on, nests without end or begins with nothing", () => {
    expect([
      packed(0xa3, 0x61),
      packed(0x01, 0x02),
      packed(),
      packed(0xc1),
      packed(...Array(100).fill(0x91), 0x01),
    ]).toEqual([null, null, null, null, null]);
  });
});
