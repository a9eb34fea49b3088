// One broker: how it is, how it was, what it owns, and its settings.
import { useGet } from "../api/use";
import { useParam } from "../parts/address";
import { Card, Facts, Loaded, Tag, Value } from "../parts/basics";
import { SeriesCard, type Span, SpanChoice } from "../parts/series";
import { Table } from "../parts/table";
import type { BrokerPage } from "../shapes";
import { bytes } from "../text/format";
import { BROKER_COLUMNS, cpuText, Logs } from "./fleet";

export default function Broker({ id }: { id: string }) {
  const answer = useGet<BrokerPage>(`brokers/${encodeURIComponent(id)}`);
  const [span, setSpan] = useParam("span", "1h");
  const [find, setFind] = useParam("find");
  return (
    <div className="page">
      <div className="page-head">
        <h1>Broker {id}</h1>
      </div>
      <Loaded answer={answer}>
        {({ broker, configs, logs }) => (
          <>
            <Card flush>
              <Table
                caption={`Broker ${id}`}
                columns={BROKER_COLUMNS}
                rows={[broker]}
                rowKey={() => id}
              />
            </Card>
            <Card title="About">
              <Facts
                rows={[
                  ["rack", <Value key="rack" of={broker.rack} show={String} why="None is set." />],
                  [
                    "features",
                    broker.features.length === 0
                      ? "none named"
                      : broker.features.map((one) => <Tag key={one}>{one}</Tag>),
                  ],
                ]}
              />
            </Card>
            <div className="split">
              <SeriesCard
                title="CPU"
                names="broker_cpu"
                labels={{ broker: id }}
                span={span as Span}
                name={() => "of one core"}
                show={cpuText}
                tools={<SpanChoice span={span} onChange={setSpan} />}
              />
              <SeriesCard
                title="Memory"
                names="broker_memory_bytes"
                labels={{ broker: id }}
                span={span as Span}
                name={() => "resident"}
                show={bytes}
              />
            </div>
            <Logs rows={logs} total={logs.length} />
            <Card
              title="Settings"
              tools={
                <input
                  className="input"
                  type="search"
                  aria-label="Find settings"
                  placeholder="Find settings"
                  value={find}
                  onChange={(event) => setFind(event.target.value)}
                />
              }
              flush
            >
              <div className="tall">
                <Table
                  caption="Settings"
                  rows={configs.filter((row) => row.name.includes(find.toLowerCase()))}
                  rowKey={(row) => row.name}
                  columns={[
                    { id: "name", title: "setting", render: (row) => <code>{row.name}</code> },
                    {
                      id: "value",
                      title: "value",
                      render: (row) => (
                        <Value of={row.value} show={(value) => <code>{value}</code>} />
                      ),
                    },
                    { id: "source", title: "set by", render: (row) => row.source },
                  ]}
                />
              </div>
            </Card>
          </>
        )}
      </Loaded>
    </div>
  );
}
