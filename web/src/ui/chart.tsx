// A chart over time. Its legend is ours: with the value under the cursor, or the last one; a click hides a line, Alt-click
// leaves it alone. All charts of a page point at one moment.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock, short } from "../lib/format";
import type { Data } from "../lib/samples";
import { theme } from "../lib/theme";
import { Icon } from "./icon";

export interface Series {
  label: string;
  color: "in" | "out" | "unacked" | "ack" | "redelivered" | "dead";
  dashed?: boolean;
  fill?: boolean;
}

export interface ChartProps {
  series: Series[];
  data: Data;
  /** How much time it shows, in seconds. */
  span: number;
  /** A sentence that says what it shows. */
  label: string;
  text: (value: number) => string;
  limit?: { value: number; name: string } | undefined;
  height?: number;
}

const colorOf = (element: Element, name: string): string =>
  getComputedStyle(element).getPropertyValue(`--${name}`).trim();

export function Chart(props: ChartProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const latest = useRef(props);
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const [at, setAt] = useState<number | null>(null);
  const [asTable, setAsTable] = useState(false);
  latest.current = props;
  const names = props.series.map((one) => one.label).join();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = make(element, latest, setAt);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: props.height ?? 160 }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, theme.value, asTable]);

  useEffect(() => {
    const made = plot.current;
    if (made && seen(box.current)) made.setData(aligned(props));
  }, [props.data, props.span]);

  useEffect(() => {
    const made = plot.current;
    if (!made) return;
    props.series.forEach((_, line) => {
      if (made.series[line + 1]?.show === hidden.has(line)) made.setSeries(line + 1, { show: !hidden.has(line) });
    });
  }, [hidden, props.series]);

  const toggle = (line: number, alone: boolean) => {
    const others = props.series.map((_, one) => one).filter((one) => one !== line);
    if (alone) setHidden(others.every((one) => hidden.has(one)) ? new Set() : new Set(others));
    else setHidden(hidden.has(line) ? new Set([...hidden].filter((one) => one !== line)) : new Set([...hidden, line]));
  };

  const shown = (line: number): string => {
    const values = props.data.lines[line] ?? [];
    const value = at !== null ? values[at] : values[values.length - 1];
    return value === null || value === undefined ? "–" : props.text(value);
  };

  return (
    <>
      <div class="legend">
        {props.series.map((one, line) => (
          <button
            type="button"
            key={one.label}
            aria-pressed={!hidden.has(line)}
            onClick={(event) => toggle(line, event.altKey)}
          >
            <i class={`key c-${one.color} ${one.dashed ? "thin" : ""}`} />
            {one.label} <b>{shown(line)}</b>
          </button>
        ))}
        <button type="button" class="as-table" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          <Icon name="columns" small />
          <span class="hidden-text">As table</span>
        </button>
      </div>
      {asTable ? (
        <AsTable {...props} />
      ) : (
        <div class="chart" style={{ "--h": `${props.height ?? 160}px` }} role="img" aria-label={props.label}>
          <div class="canvas" ref={box} />
          {at !== null && <Tip {...props} at={at} plot={plot.current} hidden={hidden} />}
        </div>
      )}
    </>
  );
}

function seen(element: HTMLElement | null): boolean {
  if (!element || document.hidden) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > -100 && top < innerHeight + 100;
}

const aligned = (props: ChartProps): UPlot.AlignedData => [props.data.times, ...props.data.lines];

function make(element: HTMLElement, latest: { current: ChartProps }, setAt: (at: number | null) => void): UPlot {
  const props = latest.current;
  const axis = colorOf(element, "axis");
  const grid = { stroke: colorOf(element, "grid"), width: 1 };
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const plot = new UPlot(
    {
      width: element.clientWidth || 300,
      height: props.height ?? 160,
      padding: [6, 0, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, sync: { key: "page" }, drag: { x: true, y: false } },
      scales: {
        x: { time: true, range: (self, low, high) => zoomedOr(self, low, high, latest.current.span) },
        y: { range: (_, __, high) => [0, top(high ?? 0, latest.current.limit?.value)] },
      },
      axes: [
        {
          stroke: axis,
          grid: { show: false },
          ticks: { show: false },
          font,
          size: 22,
          gap: 4,
          space: 64,
          values: (self, ticks) =>
            ticks.map((tick) => (nearEnd(self, tick) ? null : clock(tick * 1000, latest.current.span <= 600))),
        },
        {
          stroke: axis,
          grid,
          ticks: { show: false },
          font,
          size: 44,
          gap: 4,
          space: 28,
          splits: (_, __, ___, high) => [0, 0.25, 0.5, 0.75, 1].map((part) => part * high),
          values: (_, ticks) => ticks.map(short),
        },
      ],
      series: [
        {},
        ...props.series.map((one) => {
          const stroke = colorOf(element, one.color);
          return {
            label: one.label,
            stroke,
            width: 1.5,
            points: { show: false },
            spanGaps: false,
            ...(one.dashed ? { dash: [3, 3] } : {}),
            ...(one.fill ? { fill: stroke.replace("rgb(", "rgba(").replace(")", ", 0.12)") } : {}),
          };
        }),
      ],
      hooks: {
        setCursor: [(self) => setAt(self.cursor.idx ?? null)],
        draw: [(self) => drawLimit(self, latest.current.limit, colorOf(element, "dead"), font)],
      },
    },
    aligned(props),
    element,
  );
  return plot;
}

/** Whether a label would be cut off at the right edge. */
function nearEnd(self: UPlot, tick: number): boolean {
  const { min, max } = self.scales.x ?? {};
  return typeof min === "number" && typeof max === "number" && max - tick < (max - min) * 0.06;
}

/** What was dragged over, or all of its time until now. */
function zoomedOr(self: UPlot, low: number, high: number, span: number): [number, number] {
  const times = self.data[0];
  const last = times[times.length - 1] ?? Date.now() / 1000;
  const zoomed = low > (times[0] ?? low) || high < last;
  return zoomed ? [low, high] : [last - span, last];
}

/** The end of the scale: a round number above all lines, and above the limit when that is near. */
export function top(high: number, limit: number | undefined): number {
  const most = limit !== undefined && high > limit * 0.3 ? Math.max(high, limit) * 1.1 : high;
  if (most <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 4, 6, 8, 10].find((one) => one * power >= most * 1.02) ?? 20;
  return step * power;
}

function drawLimit(self: UPlot, limit: ChartProps["limit"], color: string, font: string): void {
  if (!limit) return;
  const y = self.valToPos(limit.value, "y", true);
  const { left, top: above, width, height } = self.bbox;
  if (y < above || y > above + height) return;
  const { ctx } = self;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.font = font.replace("11px", `${11 * ratio}px`);
  ctx.textAlign = "right";
  ctx.fillText(limit.name, left + width, y - 5 * ratio);
  ctx.restore();
}

function Tip(props: ChartProps & { at: number; plot: UPlot | null; hidden: ReadonlySet<number> }): JSX.Element | null {
  const time = props.data.times[props.at];
  if (time === undefined || !props.plot) return null;
  const width = props.plot.over.clientWidth || 1;
  const x = props.plot.valToPos(time, "x") / width;
  return (
    <div class="tip" aria-hidden="true" style={{ "--px": String(x), "--tx": x > 0.6 ? "calc(-100% - 10px)" : "10px" }}>
      <time>{clock(time * 1000)}</time>
      {props.series.map((one, line) => {
        const value = props.data.lines[line]?.[props.at];
        return props.hidden.has(line) ? null : (
          <div key={one.label}>
            <i class={`key c-${one.color} ${one.dashed ? "thin" : ""}`} />
            {one.label} <b>{value === null || value === undefined ? "no data" : props.text(value)}</b>
          </div>
        );
      })}
    </div>
  );
}

function AsTable(props: ChartProps): JSX.Element {
  const rows = props.data.times.map((time, at) => [time, at] as const).reverse();
  return (
    <div class="chart-table" tabIndex={0}>
      <table class="table dense">
        <thead>
          <tr>
            <th>Time</th>
            {props.series.map((one) => (
              <th key={one.label} class="num">
                {one.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([time, at]) => (
            <tr key={time}>
              <td>{clock(time * 1000)}</td>
              {props.series.map((one, line) => {
                const value = props.data.lines[line]?.[at];
                return (
                  <td key={one.label} class="num">
                    {value === null || value === undefined ? "no data" : props.text(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
