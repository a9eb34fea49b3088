// A card with a chart of the console's own history, asked for by name.
import { query } from "../api/client";
import { useGet, useSession } from "../api/use";
import type { SeriesAnswer } from "../shapes";
import { Card, Loading, Problem } from "./basics";
import { late } from "./late";
import type { PlotProps } from "./plot";

const Plot = late(() => import("./plot"), <Loading />);

export type Span = "15m" | "1h" | "6h" | "24h" | "7d" | "30d";

export function SeriesCard({
  title,
  names,
  labels,
  span,
  tools,
  ...plot
}: {
  title: string;
  names: string;
  labels?: Record<string, string>;
  span: Span;
  tools?: React.ReactNode;
} & Pick<PlotProps, "name" | "show" | "height">) {
  const answer = useGet<SeriesAnswer>(
    `series${query({ names, labels: labels && JSON.stringify(labels), span })}`,
  );
  return (
    <Card title={title} tools={tools}>
      <SeriesBody title={title} answer={answer} {...plot} />
    </Card>
  );
}

function SeriesBody({
  title,
  answer,
  ...plot
}: { title: string; answer: ReturnType<typeof useGet<SeriesAnswer>> } & Pick<
  PlotProps,
  "name" | "show" | "height"
>) {
  if (answer.data === undefined)
    return answer.error === null ? <Loading /> : <Problem error={answer.error} />;
  const known = answer.data.lines.some((line) => line.v.some((value) => value !== null));
  if (!known)
    return (
      <p className="loading">
        No readings yet. The console reads the brokers' metrics every few seconds while it runs.
      </p>
    );
  return <Plot title={title} series={answer.data} {...plot} />;
}

export function SpanChoice({ span, onChange }: { span: string; onChange: (span: string) => void }) {
  const { has_weeks } = useSession();
  return (
    <select
      className="input"
      aria-label="Time range"
      value={span}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="15m">15 minutes</option>
      <option value="1h">1 hour</option>
      <option value="6h">6 hours</option>
      <option value="24h">24 hours</option>
      {has_weeks === true && <option value="7d">7 days</option>}
      {has_weeks === true && <option value="30d">30 days</option>}
    </select>
  );
}
