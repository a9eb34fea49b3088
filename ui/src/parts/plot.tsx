// A chart of lines over time (uPlot), with words for those who cannot see it.
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { SeriesAnswer } from "../shapes";
import { bytes, bytesPerSecond, clock, dateTime } from "../text/format";
import { usePreferences } from "./preferences";

export type PlotProps = {
  title: string;
  series: SeriesAnswer;
  name: (line: SeriesAnswer["lines"][number]) => string;
  show: (value: number) => string;
  height?: number;
};

/** Steps of an axis of bytes: 512 KiB, not 488.3. */
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);

const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];

/** A token's colour as it is now; custom properties with light-dark() are resolved by an element. */
function colour(token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function newest(values: (number | null)[]): number | null {
  for (let at = values.length - 1; at >= 0; at -= 1) {
    const value = values[at];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

export default function Plot({ title, series, name, show, height = 150 }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const { theme, zone } = usePreferences();
  const dark = useDark();
  const lines = series.lines.slice(0, COLOURS.length);
  const names = lines.map(name);
  const shape = `${names.join("|")} ${theme} ${dark} ${zone} ${height} ${table}`;

  // biome-ignore lint/correctness/useExhaustiveDependencies: made anew when its shape changes only
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const made = new uPlot(
      options(names, show, height, element.clientWidth, zone, setAt),
      data(series, lines.length),
      element,
    );
    chart.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [shape]);

  useEffect(() => {
    chart.current?.setData(data(series, lines.length));
  }, [series, lines.length]);

  const values = lines.map((line) => (at === null ? newest(line.v) : (line.v[at] ?? null)));
  const words = names.map((one, i) => {
    const value = values[i];
    return `${one}: ${value === null || value === undefined ? "not known" : show(value)}`;
  });
  return (
    <div className="chart">
      <div className="chart-legend">
        {names.map((one, i) => (
          <span key={one}>
            <Swatch token={COLOURS[i] as string} />
            {one} <b>{valueText(values[i], show)}</b>
          </span>
        ))}
        {at !== null && series.t[at] !== undefined && (
          <span className="faint">{dateTime(series.t[at], zone)}</span>
        )}
        <button type="button" className="button quiet small push" onClick={() => setTable(!table)}>
          {table ? "Show as chart" : "Show as table"}
          <span className="visually-hidden">: {title}</span>
        </button>
      </div>
      {table ? (
        <PlotTable title={title} series={series} names={names} show={show} />
      ) : (
        <div
          ref={box}
          className="chart-box"
          role="img"
          aria-label={`${title}, newest values: ${words.join(", ")}`}
        />
      )}
    </div>
  );
}

function valueText(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? "–" : show(value);
}

function Swatch({ token }: { token: string }) {
  return <i style={{ background: `var(${token})` }} />;
}

function PlotTable({
  title,
  series,
  names,
  show,
}: {
  title: string;
  series: SeriesAnswer;
  names: string[];
  show: (value: number) => string;
}) {
  const { zone } = usePreferences();
  const rows = series.t
    .map((_, at) => at)
    .slice(-30)
    .reverse();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section className="table-box chart-table" tabIndex={0} aria-label={title}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">time</th>
            {names.map((one) => (
              <th key={one} scope="col" className="num">
                {one}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((at) => (
            <tr key={series.t[at]}>
              <th scope="row">{dateTime(series.t[at] ?? -1, zone)}</th>
              {names.map((one, i) => (
                <td key={one} className="num">
                  {valueText(series.lines[i]?.v[at], show)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function data(series: SeriesAnswer, count: number): uPlot.AlignedData {
  return [series.t.map((ms) => ms / 1000), ...series.lines.slice(0, count).map((line) => line.v)];
}

function options(
  names: string[],
  show: (value: number) => string,
  height: number,
  width: number,
  zone: "local" | "utc",
  onMove: (at: number | null) => void,
): uPlot.Options {
  const ink = colour("--ink-faint");
  const line = colour("--line");
  const font = "11px Inter, system-ui, sans-serif";
  const axis = { stroke: ink, font, ticks: { show: false }, grid: { stroke: line, width: 1 } };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { y: { range: (_chart, _low, high) => [0, high > 0 ? high * 1.12 : 1] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 80,
        size: 26,
        values: (chart, times) => times.map((s) => momentText(chart, s * 1000, zone)),
      },
      {
        ...axis,
        size: 76,
        space: 34,
        values: (_chart, values) => values.map(show),
        ...(show === bytes || show === bytesPerSecond ? { incrs: BINARY } : {}),
      },
    ],
    series: [
      {},
      ...names.map((label, at) => ({
        label,
        stroke: colour(COLOURS[at] as string),
        width: 1.75,
        points: { show: false },
        fill: names.length === 1 ? fade(colour(COLOURS[at] as string)) : undefined,
      })),
    ],
    hooks: { setCursor: [(chart) => onMove(chart.cursor.idx ?? null)] },
  };
}

/** The time of day, or the day where the axis has several. */
function momentText(chart: uPlot, ms: number, zone: "local" | "utc"): string {
  const { min = 0, max = 0 } = chart.scales.x ?? {};
  const isLong = (max ?? 0) - (min ?? 0) > 2 * 86_400;
  return isLong ? dateTime(ms, zone).slice(5, 10) : clock(ms, zone).slice(0, 5);
}

function fade(value: string): string {
  return value.replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)");
}

function useDark(): boolean {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const [dark, setDark] = useState(media.matches);
  useEffect(() => {
    const list = matchMedia("(prefers-color-scheme: dark)");
    const listen = () => setDark(list.matches);
    list.addEventListener("change", listen);
    return () => list.removeEventListener("change", listen);
  }, []);
  return dark;
}
