// The store's state over time, as a strip with words.
import type { StatePoint } from "../shapes";
import { clock, duration } from "../text/format";
import { usePreferences } from "./preferences";

export function HealthStrip({ points, nowMs }: { points: StatePoint[]; nowMs: number }) {
  const { zone } = usePreferences();
  const first = points[0];
  if (first === undefined)
    return <p className="faint">No readings yet: the console has only just started.</p>;
  const parts = points.map((point, at) => ({
    ...point,
    seconds: Math.max(1, ((points[at + 1]?.at_ms ?? nowMs) - point.at_ms) / 1000),
  }));
  const words = parts
    .slice(-4)
    .map((part) => `${part.state ?? "not known"} for ${duration(part.seconds)}`)
    .join(", then ");
  return (
    <figure className="stack">
      <div className="strip" role="img" aria-label={`State of the store: ${words}`}>
        {parts.map((part) => (
          <span
            key={part.at_ms}
            className={part.state ?? "unknown-state"}
            style={{ flexGrow: part.seconds }}
            title={`${part.state ?? "not known"} from ${clock(part.at_ms, zone)}, ${duration(part.seconds)}`}
          />
        ))}
      </div>
      <figcaption className="row faint">
        <span>{clock(first.at_ms, zone)}</span>
        <span className="push">{clock(nowMs, zone)}</span>
      </figcaption>
    </figure>
  );
}
