// The objects behind a topic: flushes and history of one log, by age and size.
import { Link } from "wouter";
import { query } from "../../api/client";
import { useGet, useSession } from "../../api/use";
import { useParam } from "../../parts/address";
import { Card, Empty, Loaded, Tag, Tile, Tiles, Value } from "../../parts/basics";
import { Icon } from "../../parts/icons";
import { usePreferences } from "../../parts/preferences";
import { type Column, Table } from "../../parts/table";
import type { ObjectList, ObjectRow, TopicSummary } from "../../shapes";
import { age, bytes, count, dateTime, duration, plural } from "../../text/format";

export function objectPath(key: string): string {
  return `/object?key=${encodeURIComponent(key)}`;
}

export function NoBucket() {
  return (
    <Empty icon="storage" title="The bucket is out of reach">
      <p>
        The brokers keep their objects in memory, or where this console cannot read them. Messages,
        groups and metrics work without it.
      </p>
    </Empty>
  );
}

export default function Objects({ topic }: { topic: TopicSummary }) {
  const session = useSession();
  const { zone } = usePreferences();
  const [log, setLog] = useParam("log");
  const [after, setAfter] = useParam("after");
  const path = `topics/${encodeURIComponent(topic.name)}/objects${query({ log, after })}`;
  const answer = useGet<ObjectList>(session.has_bucket === false ? null : path, {
    everyMs: 15_000,
  });
  if (session.has_bucket === false) return <NoBucket />;
  return (
    <Loaded answer={answer}>
      {(data) => (
        <>
          <Tiles>
            <Tile label="Objects">{count(data.total)}</Tile>
            <Tile label="Bytes">{bytes(data.bytes)}</Tile>
            <Tile
              label="Leftovers"
              note={
                data.held_until_ms === null
                  ? "swept after a while"
                  : `held by a snapshot until ${dateTime(data.held_until_ms, zone)}`
              }
            >
              {count(data.leftovers)} <small>{bytes(data.leftover_bytes)}</small>
            </Tile>
            <Tile label="Layout">{data.layout}</Tile>
          </Tiles>
          {data.problems.map((problem) => (
            <div className="alert bad" role="alert" key={problem}>
              <Icon name="error" />
              <p>{problem}</p>
            </div>
          ))}
          <Card
            title="Objects by age and size"
            tools={
              data.logs.length > 1 && (
                <label className="row">
                  <span className="soft">log</span>
                  <select
                    className="input"
                    value={data.log}
                    onChange={(event) => setLog(event.target.value)}
                  >
                    {data.logs.map((one) => (
                      <option key={one}>{one}</option>
                    ))}
                  </select>
                </label>
              )
            }
          >
            <Dots items={data.items} nowMs={data.as_of_ms} />
          </Card>
          <Card flush>
            <Table
              caption="Objects"
              columns={columns(zone, data.as_of_ms)}
              rows={data.items}
              rowKey={(row) => row.key}
              empty={
                <Empty icon="storage" title="No objects yet">
                  <p>The first flush of this log writes one.</p>
                </Empty>
              }
            />
            {data.after !== null && (
              <div className="row table-foot">
                <span className="faint">
                  {count(data.items.length)} of {plural(data.total, "object")}
                </span>
                <button
                  type="button"
                  className="button small push"
                  onClick={() => setAfter(data.after ?? "")}
                >
                  Next page
                </button>
              </div>
            )}
          </Card>
        </>
      )}
    </Loaded>
  );
}

function columns(zone: "local" | "utc", nowMs: number): Column<ObjectRow>[] {
  return [
    {
      id: "key",
      title: "object",
      render: (row) => (
        <Link href={objectPath(row.key)} title={row.key}>
          {row.key.split("/").at(-1)}
        </Link>
      ),
    },
    {
      id: "kind",
      title: "kind",
      render: (row) => <Tag tone={row.kind === "flush" ? "accent" : ""}>{row.kind}</Tag>,
    },
    { id: "first", title: "first", number: true, render: (row) => count(row.first) },
    { id: "last", title: "last", number: true, render: (row) => count(row.last) },
    { id: "records", title: "records", number: true, render: (row) => count(row.records) },
    { id: "bytes", title: "bytes", number: true, render: (row) => bytes(row.bytes) },
    { id: "lanes", title: "lanes", number: true, render: (row) => count(row.lanes) },
    {
      id: "written_ms",
      title: "written",
      number: true,
      render: (row) => (
        <Value
          of={row.written_ms}
          show={(ms) => <span title={dateTime(ms, zone)}>{age(ms, nowMs)}</span>}
        />
      ),
    },
  ];
}

/** Each dot an object: younger to the right, larger to the top; both scales are logarithms. */
function Dots({ items, nowMs }: { items: ObjectRow[]; nowMs: number }) {
  const known = items.filter((item) => item.written_ms !== null);
  if (known.length === 0) return <p className="faint">No object has a time.</p>;
  const ages = known.map((item) => Math.max(1, (nowMs - (item.written_ms ?? nowMs)) / 1000));
  const youngest = Math.min(...ages);
  const oldest = Math.max(...ages, youngest * 2);
  const largest = Math.max(...known.map((item) => item.bytes), 1024);
  const x = (s: number) => `${96 - (Math.log(s / youngest) / Math.log(oldest / youngest)) * 86}%`;
  const y = (size: number) => 126 - (Math.log(Math.max(size, 1)) / Math.log(largest)) * 108;
  const marks = [youngest, Math.sqrt(youngest * oldest), oldest];
  return (
    <svg
      className="dots"
      role="img"
      aria-label={`${plural(known.length, "object")}, the oldest ${duration(oldest)} old, the largest ${bytes(largest)}`}
    >
      <line x1="0" x2="100%" y1="132" y2="132" />
      {marks.map((s) => (
        <text key={s} x={x(s)} y="147" textAnchor="middle">
          {duration(s)}
        </text>
      ))}
      <text x="0" y="11">
        {bytes(largest)}
      </text>
      {known.map((item, at) => (
        <circle
          key={item.key}
          className={item.kind}
          cx={x(ages[at] ?? 1)}
          cy={y(item.bytes)}
          r={3 + Math.min(6, Math.log10(item.bytes + 1))}
        >
          <title>{`${item.key.split("/").at(-1)}: ${bytes(item.bytes)}, ${duration(ages[at] ?? 0)} old`}</title>
        </circle>
      ))}
    </svg>
  );
}
