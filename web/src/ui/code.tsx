// A body: as JSON, text, hex or MessagePack, with what was searched for marked. A long one is shown in part until all is asked for.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { hexLines, jsonLines, messagePack, octetsOf, type Part, textOf } from "../lib/body";
import { bytes } from "../lib/format";
import { Choice, CopyButton } from "./basic";

type As = "json" | "text" | "hex" | "msgpack";

const SHOWN_BYTES = 64 << 10;
const LONG_BYTES = 256 << 10;

export function Body({
  payload,
  encoding,
  size,
  mark,
}: {
  payload: string;
  encoding: "string" | "base64";
  size: number;
  mark: string;
}): JSX.Element {
  const octets = useMemo(() => octetsOf(payload, encoding), [payload, encoding]);
  const text = useMemo(() => textOf(octets), [octets]);
  const packed = useMemo(() => messagePack(octets), [octets]);
  const json = useMemo(() => (text === null ? null : jsonLines(text)), [text]);
  const first: As = json ? "json" : text !== null ? "text" : packed !== null ? "msgpack" : "hex";
  const [chosen, setAs] = useState<As | null>(null);
  const [all, setAll] = useState(false);
  const as = chosen ?? first;
  const options: [As, string][] = [];
  if (json) options.push(["json", "JSON"]);
  if (text !== null) options.push(["text", "Text"]);
  options.push(["hex", "Hex"]);
  if (packed !== null) options.push(["msgpack", "MessagePack"]);
  const long = octets.length > LONG_BYTES && !all;
  const lines = useMemo((): Part[][] => {
    if (as === "hex") return hexLines(long ? octets.subarray(0, SHOWN_BYTES) : octets);
    if (as === "msgpack") return jsonLines(packed ?? "") ?? [];
    if (as === "json" && json && !long) return json;
    return ((long ? text?.slice(0, SHOWN_BYTES) : text) ?? "")
      .split("\n")
      .map((line): Part[] => [{ kind: "", text: line }]);
  }, [as, octets, long, text, packed, json]);
  return (
    <>
      <h3>
        Body <span class="muted">{bytes(size)}</span>
        <span class="grow" />
        <Choice label="Show as" options={options} value={as} onChange={setAs} />
        <CopyButton text={text ?? payload} what="the body" />
      </h3>
      <pre
        class="code body-code"
        tabIndex={0}
        role="region"
        aria-label={`Body as ${options.find(([one]) => one === as)?.[1] ?? "text"}`}
      >
        {lines.map((parts, at) => (
          <span key={at} class="l">
            {parts.map((part, index) => (
              <span key={index} class={part.kind}>
                <Marked text={part.text} mark={mark} />
              </span>
            ))}
          </span>
        ))}
      </pre>
      {long && (
        <p class="small muted">
          The first {bytes(SHOWN_BYTES)} of {bytes(octets.length)}.{" "}
          <button type="button" class="btn quiet s" onClick={() => setAll(true)}>
            Show all
          </button>
        </p>
      )}
    </>
  );
}

export function Marked({ text, mark }: { text: string; mark: string }): JSX.Element {
  if (!mark) return <>{text}</>;
  const parts: (string | JSX.Element)[] = [];
  const low = text.toLowerCase();
  const wanted = mark.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + mark.length)}</mark>);
    from = at + mark.length;
  }
  parts.push(text.slice(from));
  return <>{parts}</>;
}
