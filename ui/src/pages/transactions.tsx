// Transactions that brokers know.
import { useGet } from "../api/use";
import { Card, Empty, Loaded, Tag, Value } from "../parts/basics";
import { Table } from "../parts/table";
import type { TransactionList } from "../shapes";
import { duration, plural } from "../text/format";

export default function Transactions() {
  const answer = useGet<TransactionList>("transactions");
  return (
    <div className="page">
      <div className="page-head">
        <h1>Transactions</h1>
      </div>
      <Loaded answer={answer}>
        {(data) => (
          <Card flush>
            <Table
              caption="Transactions"
              rows={data.items}
              rowKey={(row) => row.transactional_id}
              columns={[
                { id: "id", title: "transactional id", render: (row) => row.transactional_id },
                {
                  id: "state",
                  title: "state",
                  render: (row) => (
                    <Tag tone={row.started_ms === null ? "" : "accent"}>{row.state}</Tag>
                  ),
                },
                {
                  id: "runs",
                  title: "runs for",
                  number: true,
                  render: (row) => (
                    <Value
                      of={row.started_ms}
                      show={(ms) => duration(Math.max(0, data.as_of_ms - ms) / 1000)}
                      why="No transaction runs now."
                    />
                  ),
                },
                {
                  id: "timeout",
                  title: "aborted after",
                  number: true,
                  render: (row) => (
                    <Value
                      of={row.timeout_ms}
                      show={(ms) => duration(ms / 1000)}
                      why="No transaction runs now."
                    />
                  ),
                },
                {
                  id: "topics",
                  title: "writes to",
                  wrap: true,
                  render: (row) =>
                    row.partitions === 0
                      ? ""
                      : `${row.topics.slice(0, 5).join(", ")} (${plural(row.partitions, "partition")})`,
                },
                {
                  id: "producer",
                  title: "producer id",
                  number: true,
                  render: (row) => row.producer_id,
                },
                {
                  id: "coordinator",
                  title: "coordinator",
                  number: true,
                  render: (row) => row.coordinator,
                },
              ]}
              empty={
                <Empty icon="transactions" title="No transaction is known">
                  <p>
                    A producer with a <code>transactional.id</code> appears here.
                  </p>
                </Empty>
              }
            />
          </Card>
        )}
      </Loaded>
    </div>
  );
}
