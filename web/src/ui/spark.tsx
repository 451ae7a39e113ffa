import type { JSX } from "preact";

/** A line of 20 to 60 points on its own scale. SVG, as many of them are in a table. */
export function Spark({ values, kind = "" }: { values: number[]; kind?: string }): JSX.Element | null {
  if (values.length < 2) return null;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const step = 100 / (values.length - 1);
  const points = values.map((value, at) => {
    const y = high === low ? 18 : 18 - (16 * (value - low)) / (high - low);
    return `${(at * step).toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = `M${points.join("L")}`;
  return (
    <svg class={`spark ${kind}`} viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <path class="area" d={`${line}L100 20L0 20z`} />
      <path d={line} />
    </svg>
  );
}
