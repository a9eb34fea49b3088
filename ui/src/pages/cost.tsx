// What everything costs: by topic and operation, with other settings, and what would save money.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { change, query } from "../api/client";
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Empty, Facts, Loaded, Problem, Tag, Tile, Tiles, Value } from "../parts/basics";
import { Icon } from "../parts/icons";
import { useDelayed } from "../parts/palette";
import { type Column, CsvButton, Table, useSorted } from "../parts/table";
import { TopicName } from "../parts/topic-name";
import type { Advice, CostPage, CostRow, WhatIfAnswer } from "../shapes";
import { brief, bytes, duration, money, percent } from "../text/format";

const OPERATIONS = ["put", "get", "head", "list", "delete"];

const COLUMNS: Column<CostRow>[] = [
  {
    id: "topic",
    title: "topic",
    value: (row) => row.topic,
    render: (row) => (
      <>
        <TopicName name={row.topic} />
        {ROWS[row.topic] !== undefined && <div className="faint note">{ROWS[row.topic]}</div>}
      </>
    ),
  },
  {
    id: "month",
    title: "a month",
    number: true,
    value: (row) => row.month,
    render: (row) => <strong>{money(row.month)}</strong>,
  },
  {
    id: "requests_month",
    title: "requests",
    number: true,
    value: (row) => row.requests_month,
    render: (row) => money(row.requests_month),
  },
  {
    id: "storage_month",
    title: "storage",
    number: true,
    value: (row) => row.storage_month,
    render: (row) => <Value of={row.storage_month} show={money} />,
  },
  ...OPERATIONS.map(
    (operation): Column<CostRow> => ({
      id: operation,
      title: `${operation.toUpperCase()} a day`,
      number: true,
      value: (row) => row.requests[operation] ?? 0,
      render: (row) => brief(Math.round(row.requests[operation] ?? 0)),
    }),
  ),
  {
    id: "written_bytes",
    title: "written a day",
    number: true,
    value: (row) => row.written_bytes,
    render: (row) => bytes(row.written_bytes),
  },
  {
    id: "read_bytes",
    title: "read a day",
    number: true,
    value: (row) => row.read_bytes,
    render: (row) => bytes(row.read_bytes),
  },
  {
    id: "stored_bytes",
    title: "stored",
    number: true,
    value: (row) => row.stored_bytes,
    render: (row) => <Value of={row.stored_bytes} show={bytes} />,
  },
];

const ROWS: Record<string, string> = {
  "@shared": "logs that topics share",
  "@store": "what belongs to no topic",
  "@console": "what this console asks",
};

const PRICES: Record<string, string> = {
  storageGbMonth: "storage, a GB and month",
  putPer1000: "1,000 PUTs",
  getPer1000: "1,000 GETs or HEADs",
  listPer1000: "1,000 LISTs",
  deletePer1000: "1,000 DELETEs",
  writtenGb: "a GB written",
  readGb: "a GB read",
};

export default function Cost() {
  const [span, setSpan] = useParam("window", "start");
  const answer = useGet<CostPage>(`cost${query({ window: span })}`, { everyMs: 15_000 });
  return (
    <div className="page">
      <div className="page-head">
        <h1>Cost</h1>
        <select
          className="input"
          aria-label="Counted over"
          value={span}
          onChange={(event) => setSpan(event.target.value)}
        >
          <option value="start">since the brokers' start</option>
          <option value="hour">the last hour</option>
        </select>
      </div>
      <Loaded answer={answer}>{(data) => <Contents data={data} />}</Loaded>
    </div>
  );
}

function Contents({ data }: { data: CostPage }) {
  const [sort, setSort] = useParam("sort", "-month");
  const rows = useSorted(data.items, COLUMNS, sort);
  return (
    <>
      <Tiles>
        <Tile
          label={`${data.currency} a month`}
          note={data.window_s === null ? undefined : `counted over ${duration(data.window_s)}`}
        >
          {money(data.total.month)}
        </Tile>
        <Tile label={`${data.currency} a day`}>{money(data.total.day)}</Tile>
        <Tile label="Requests, a month">{money(data.total.requests_month)}</Tile>
        <Tile label="Storage, a month">
          <Value
            of={data.total.storage_month}
            show={money}
            why={data.unknown.storage_month ?? data.unknown.stored_bytes}
          />
        </Tile>
      </Tiles>
      <Advices items={data.advice} currency={data.currency} />
      <Card title="By topic" tools={<CsvButton name="cost" columns={COLUMNS} rows={rows} />} flush>
        <Table
          caption="Cost by topic"
          columns={COLUMNS}
          rows={rows}
          rowKey={(row) => row.topic}
          sort={sort}
          onSort={setSort}
          foot={
            <tr>
              <th scope="row" className="first">
                all
              </th>
              {COLUMNS.slice(1).map((column) => (
                <td key={column.id} className="num">
                  {column.render(data.total)}
                </td>
              ))}
            </tr>
          }
          empty={
            <Empty icon="cost" title="Nothing to pay for yet">
              <p>
                Brokers count the requests they send. After the first ones, this page adds them up.
              </p>
            </Empty>
          }
        />
      </Card>
      {data.shared.length > 0 && <Shares data={data} />}
      <div className="split">
        <WhatIfCard currency={data.currency} />
        <Card title="Prices">
          <Facts
            rows={Object.entries(data.prices).map(([name, price]) => [
              PRICES[name] ?? name,
              `${price} ${data.currency}`,
            ])}
          />
        </Card>
      </div>
    </>
  );
}

function Advices({ items, currency }: { items: Advice[]; currency: string }) {
  if (items.length === 0) return null;
  return (
    <Card title="What would save money" flush>
      <ul className="findings">
        {items.map((item) => (
          <li key={item.text} className="info">
            <Icon name="info" />
            <span>{item.text}</span>
            <Tag tone="good">
              {money(item.saving_month)} {currency} a month less
            </Tag>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Shares({ data }: { data: CostPage }) {
  return (
    <Card title="Shares of @shared, by bytes" flush>
      <Table
        caption="Shares of shared logs"
        rows={data.shared}
        rowKey={(row) => row.topic}
        columns={[
          { id: "topic", title: "topic", render: (row) => <TopicName name={row.topic} /> },
          { id: "bytes", title: "stored", number: true, render: (row) => bytes(row.stored_bytes) },
          { id: "share", title: "share", number: true, render: (row) => percent(row.share, 1) },
          { id: "month", title: "a month", number: true, render: (row) => `~${money(row.month)}` },
        ]}
      />
    </Card>
  );
}

const STEPS_MS = [100, 250, 500, 1000, 2000, 3000, 5000, 10_000];

function WhatIfCard({ currency }: { currency: string }) {
  const [step, setStep] = useState<number | null>(null);
  const [small, setSmall] = useState(false);
  const interval = step === null ? null : (STEPS_MS[step] ?? 500);
  const body = useDelayed(
    JSON.stringify({ flush_interval_ms: interval, share_all_small: small }),
    250,
  );
  const isAsked = interval !== null || small;
  const { data, error } = useQuery<WhatIfAnswer, Error>({
    queryKey: ["what-if", body],
    queryFn: () => change<WhatIfAnswer>("POST", "cost:what-if", JSON.parse(body)),
    enabled: isAsked,
    refetchInterval: false,
    placeholderData: (before) => before,
  });
  return (
    <Card title="What if">
      <div className="stack">
        <div className="field">
          <label htmlFor="what-if-flush">
            Flush interval: {interval === null ? "as it is set" : duration(interval / 1000)}
          </label>
          <input
            id="what-if-flush"
            type="range"
            min={0}
            max={STEPS_MS.length - 1}
            value={step ?? 2}
            aria-valuetext={interval === null ? "as it is" : duration(interval / 1000)}
            onChange={(event) => setStep(Number(event.target.value))}
          />
        </div>
        <label className="check">
          <input
            type="checkbox"
            checked={small}
            onChange={(event) => setSmall(event.target.checked)}
          />
          all small topics in shared logs
        </label>
        {error !== null && <Problem error={error} />}
        {isAsked && data !== undefined && (
          <div role="status" className="stack">
            <p className="what-if">
              <span>{money(data.month)}</span> → <strong>{money(data.what_if_month)}</strong>{" "}
              {currency} a month
            </p>
            <ul className="faint assumptions">
              {data.assumptions.map((one) => (
                <li key={one}>{one}</li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </Card>
  );
}
