// How far behind a group is, in time, and where that leads.
import { duration, perSecond } from "../text/format";
import { Tag, Value } from "./basics";

type Lagging = { lag: number | null; lag_s: number | null; lag_s_is_at_least: boolean };

export function LagText({ of, why }: { of: Lagging; why?: string | null }) {
  if (of.lag === 0) return <>0 s</>;
  return (
    <Value
      of={of.lag_s}
      show={(seconds) => `${of.lag_s_is_at_least ? "more than " : ""}${duration(seconds)}`}
      why={why}
    />
  );
}

type Trend = { lag: number | null; trend_per_s: number | null; catch_up_s: number | null };

/** In words: keeps up, catches up in 4 min, falls back by 31/s. */
export function TrendText({ of, why }: { of: Trend; why?: string | null }) {
  if (of.lag === 0) return <Tag tone="good">keeps up</Tag>;
  if (of.trend_per_s === null) return <Value of={null} show={String} why={why} />;
  if (of.trend_per_s > 0.05)
    return <Tag tone="bad">falls back by {perSecond(of.trend_per_s)}/s</Tag>;
  if (of.catch_up_s !== null) return <Tag tone="good">caught up in {duration(of.catch_up_s)}</Tag>;
  return <Tag tone="warn">stays behind</Tag>;
}
