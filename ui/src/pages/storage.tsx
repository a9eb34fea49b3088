// The bucket as brokers feel it: state, operations, shared logs; and what this console asks of it.
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Facts, Loaded, StateWord, Tile, Tiles, Value } from "../parts/basics";
import { SeriesCard, type Span, SpanChoice } from "../parts/series";
import { HealthStrip } from "../parts/strip";
import { Table } from "../parts/table";
import type { SharedLogRow, StorePage } from "../shapes";
import { bytes, count, duration, money, perSecond } from "../text/format";

export default function Storage() {
  const answer = useGet<StorePage>("store");
  return (
    <div className="page">
      <div className="page-head">
        <h1>Storage</h1>
      </div>
      <Loaded answer={answer}>{(data) => <Contents data={data} />}</Loaded>
    </div>
  );
}

function Contents({ data }: { data: StorePage }) {
  const [span, setSpan] = useParam("span", "1h");
  const { unknown } = data;
  const ms = (value: number) => `${perSecond(value)} ms`;
  return (
    <>
      <Tiles>
        <Tile label="State">
          <Value
            of={data.state}
            show={(state) => <StateWord state={state} />}
            why={unknown.state}
          />
        </Tile>
        <Tile
          label="Place"
          note={data.namespace === null ? undefined : `namespace ${data.namespace}`}
        >
          <Value
            of={data.place}
            show={(place) => <small className="place">{place}</small>}
            why={unknown.place}
          />
        </Tile>
        <Tile label="Checkpoint" note="what a recovery begins from">
          <Value
            of={data.checkpoint_age_s}
            show={(age) => `${duration(age)} old`}
            why={unknown.checkpoint_age_s}
          />
        </Tile>
      </Tiles>
      <Card title="State over time">
        <HealthStrip points={data.strip} nowMs={data.as_of_ms} />
      </Card>
      <div className="split">
        <SeriesCard
          title="Requests a second"
          names="requests_per_s"
          span={span as Span}
          name={(line) => (line.labels.operation ?? "").toUpperCase()}
          show={perSecond}
          tools={<SpanChoice span={span} onChange={setSpan} />}
        />
        <SeriesCard
          title="p99 of requests"
          names="latency_p99_ms"
          span={span as Span}
          name={(line) => (line.labels.operation ?? "").toUpperCase()}
          show={ms}
        />
      </div>
      <Card title="Operations, as brokers feel them" flush>
        <Table
          caption="Operations"
          rows={data.operations}
          rowKey={(row) => row.operation}
          columns={[
            { id: "operation", title: "operation", render: (row) => row.operation.toUpperCase() },
            {
              id: "per_s",
              title: "a second",
              number: true,
              render: (row) => <Value of={row.per_s} show={perSecond} why={unknown.per_s} />,
            },
            {
              id: "p50",
              title: "p50",
              number: true,
              render: (row) => (
                <Value of={row.p50_ms} show={ms} why="There was none in the last minute." />
              ),
            },
            {
              id: "p99",
              title: "p99",
              number: true,
              render: (row) => (
                <Value of={row.p99_ms} show={ms} why="There was none in the last minute." />
              ),
            },
            {
              id: "errors",
              title: "errors a second",
              number: true,
              render: (row) => <Value of={row.errors_per_s} show={perSecond} />,
            },
            {
              id: "total",
              title: "since the start",
              number: true,
              render: (row) => count(row.total),
            },
          ]}
          empty={<p className="loading">No broker has asked the store for anything yet.</p>}
        />
      </Card>
      <div className="split">
        <SharedLogs rows={data.shared_logs} />
        <Card title="What this console asked for itself">
          <Facts
            rows={[
              ...Object.entries(data.own.requests).map(([operation, number]): [string, string] => [
                operation.toUpperCase(),
                count(number),
              ]),
              ["bytes read", bytes(data.own.bytes)],
              ["money", money(data.own.money)],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function SharedLogs({ rows }: { rows: SharedLogRow[] }) {
  return (
    <Card title="Logs that topics share" flush>
      <Table
        caption="Logs that topics share"
        rows={rows}
        rowKey={(row) => row.log}
        columns={[
          { id: "log", title: "log", render: (row) => <code>{row.log}</code> },
          {
            id: "lanes",
            title: "lanes",
            number: true,
            render: (row) => <Value of={row.lanes} show={count} />,
          },
          {
            id: "live",
            title: "live",
            number: true,
            render: (row) => <Value of={row.live_bytes} show={bytes} />,
          },
          {
            id: "dead",
            title: "dead",
            number: true,
            render: (row) => <Value of={row.dead_bytes} show={bytes} />,
          },
          {
            id: "bar",
            title: "live against dead",
            render: (row) => <LiveBar live={row.live_bytes ?? 0} dead={row.dead_bytes ?? 0} />,
          },
        ]}
        empty={<p className="loading">No topic has the shared layout.</p>}
      />
    </Card>
  );
}

function LiveBar({ live, dead }: { live: number; dead: number }) {
  return (
    <span className="bar" aria-hidden="true">
      <span style={{ flexGrow: live }} />
      <span className="second" style={{ flexGrow: dead }} />
    </span>
  );
}
