// The fleet: brokers, who is ready and why not, who owns which log, what is on its way.
import { Link } from "wouter";
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Empty, Loaded, Tag, Tile, Tiles, Value } from "../parts/basics";
import { type Column, Table, useSorted } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { BrokerSummary, FleetPage, LogRow } from "../shapes";
import { bytes, count, duration, perSecond, plural } from "../text/format";

export const BROKER_COLUMNS: Column<BrokerSummary>[] = [
  {
    id: "id",
    title: "broker",
    value: (row) => row.id,
    render: (row) => (
      <>
        <Link href={`/fleet/${row.id}`}>{row.id}</Link>{" "}
        {row.controller && <Tag tone="accent">controller</Tag>}
      </>
    ),
  },
  { id: "address", title: "address", value: (row) => row.address, render: (row) => row.address },
  {
    id: "ready",
    title: "ready",
    value: (row) => (row.ready === null ? null : Number(row.ready)),
    render: (row) => (
      <Value
        of={row.ready}
        why={row.unknown.ready}
        show={(ready) =>
          ready ? (
            <Tag tone="good">ready</Tag>
          ) : (
            <Tag tone="bad">{row.reasons.join("; ") || "not ready"}</Tag>
          )
        }
      />
    ),
  },
  {
    id: "version",
    title: "version",
    value: (row) => row.version,
    render: (row) => <Value of={row.version} show={String} why={row.unknown.version} />,
  },
  number("up_s", "up", (row) => row.up_s, duration),
  number("leaders", "leads", (row) => row.leaders, count),
  number("logs", "logs", (row) => row.logs, count),
  number("groups", "groups", (row) => row.groups, count),
  number("connections", "connections", (row) => row.connections, count),
  number("cpu", "CPU", (row) => row.cpu, cpuText),
  number("memory_bytes", "memory", (row) => row.memory_bytes, bytes),
];

/** Of one core. */
export function cpuText(cpu: number): string {
  return `${perSecond(cpu * 100)} %`;
}

function number(
  id: keyof BrokerSummary & string,
  title: string,
  value: (row: BrokerSummary) => number | null,
  show: (value: number) => string,
): Column<BrokerSummary> {
  return {
    id,
    title,
    number: true,
    value,
    render: (row) => <Value of={value(row)} show={show} why={row.unknown[id]} />,
  };
}

export const LOG_COLUMNS: Column<LogRow>[] = [
  { id: "log", title: "log", value: (row) => row.log, render: (row) => <code>{row.log}</code> },
  {
    id: "owner",
    title: "owner",
    number: true,
    value: (row) => row.owner,
    render: (row) => (
      <Value of={row.owner} show={(id) => <Link href={`/fleet/${id}`}>{id}</Link>} />
    ),
  },
  logNumber("lanes", "lanes", (row) => row.lanes, count),
  {
    id: "end",
    title: "end position",
    number: true,
    value: (row) => (row.end === null ? null : Number(row.end)),
    render: (row) => <Value of={row.end} show={count} />,
  },
  logNumber("tail_objects", "tail objects", (row) => row.tail_objects, count),
  logNumber("live_bytes", "live", (row) => row.live_bytes, bytes),
  logNumber("dead_bytes", "dead", (row) => row.dead_bytes, bytes),
  logNumber("puts_per_s", "PUT/s", (row) => row.puts_per_s, perSecond),
];

function logNumber(
  id: string,
  title: string,
  value: (row: LogRow) => number | null,
  show: (value: number) => string,
): Column<LogRow> {
  const why = "No broker that answers has this log open, or it is not among those that are shown.";
  return {
    id,
    title,
    number: true,
    value,
    render: (row) => <Value of={value(row)} show={show} why={why} />,
  };
}

export default function Fleet() {
  const answer = useGet<FleetPage>("fleet");
  return (
    <div className="page">
      <div className="page-head">
        <h1>Fleet</h1>
      </div>
      <Loaded answer={answer}>{(data) => <Contents data={data} />}</Loaded>
    </div>
  );
}

function Contents({ data }: { data: FleetPage }) {
  const ready = data.brokers.filter((one) => one.ready === true).length;
  return (
    <>
      <Tiles>
        <Tile label="Brokers" note={`${ready} ready`}>
          {count(data.brokers.length)}
        </Tile>
        <Tile label="Controller">
          <Value of={data.controller} show={String} why={data.unknown.controller} />
        </Tile>
        <Tile label="Generation">
          <Value
            of={data.generation}
            show={count}
            why={data.unknown.generation ?? "A single broker has no membership to count."}
          />
        </Tile>
        <Tile label="Hand-overs">
          <Value of={data.hand_overs} show={count} why={data.unknown.hand_overs} />
        </Tile>
        <Tile label="Cluster">
          <Value
            of={data.cluster_id}
            show={(id) => <small className="mono">{id}</small>}
            why={data.unknown.cluster_id}
          />
        </Tile>
      </Tiles>
      <Card title="Brokers" flush>
        <Table
          caption="Brokers"
          columns={BROKER_COLUMNS}
          rows={data.brokers}
          rowKey={(row) => String(row.id)}
          empty={<Empty icon="fleet" title="No broker answers" />}
        />
      </Card>
      {data.moves.length > 0 && (
        <Card title="Topics on their way to another layout" flush>
          <Table
            caption="Moves"
            rows={data.moves}
            rowKey={(row) => row.topic}
            columns={[
              { id: "topic", title: "topic", render: (row) => <TopicName name={row.topic} /> },
              { id: "phase", title: "phase", render: (row) => <Tag tone="warn">{row.phase}</Tag> },
              { id: "to", title: "to", render: (row) => <Value of={row.to} show={String} /> },
            ]}
          />
        </Card>
      )}
      <Logs rows={data.logs} total={data.logs_total} />
    </>
  );
}

export function Logs({ rows, total }: { rows: LogRow[]; total: number }) {
  const [sort, setSort] = useParam("sort", "-puts_per_s");
  const sorted = useSorted(rows, LOG_COLUMNS, sort);
  return (
    <Card
      title={rows.length < total ? `${count(rows.length)} of ${plural(total, "log")}` : "Logs"}
      flush
    >
      <div className="tall">
        <Table
          caption="Logs"
          columns={LOG_COLUMNS}
          rows={sorted}
          rowKey={(row) => row.log}
          sort={sort}
          onSort={setSort}
          empty={<p className="loading">No log is open.</p>}
        />
      </div>
    </Card>
  );
}
