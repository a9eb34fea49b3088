// Partitions of a topic: where they lie, what they hold, who leads them.
import { Link } from "wouter";
import { query } from "../../api/client";
import { useGet } from "../../api/use";
import { useParam } from "../../parts/address";
import { Card, Loaded, Value } from "../../parts/basics";
import { type Column, CsvButton, Table } from "../../parts/table";
import type { PartitionList, PartitionRow, TopicSummary } from "../../shapes";
import { bytes, count, plural } from "../../text/format";

export default function Partitions({ topic }: { topic: TopicSummary }) {
  const [sort, setSort] = useParam("sort", "partition");
  const [after, setAfter] = useParam("after");
  const answer = useGet<PartitionList>(
    `topics/${encodeURIComponent(topic.name)}/partitions${query({ sort, after, limit: 200 })}`,
  );
  const why = answer.data?.unknown ?? {};
  const columns: Column<PartitionRow>[] = [
    {
      id: "partition",
      title: "partition",
      value: (row) => row.partition,
      render: (row) => row.partition,
    },
    {
      id: "leader",
      title: "leader",
      number: true,
      value: (row) => row.leader,
      render: (row) => (
        <Value
          of={row.leader}
          show={(id) => <Link href={`/fleet/${id}`}>{id}</Link>}
          why={why.leader ?? "The partition has no leader now."}
        />
      ),
    },
    {
      id: "log",
      title: "log",
      value: (row) => row.log,
      render: (row) => <Value of={row.log} show={(log) => <code>{log}</code>} why={why.log} />,
    },
    {
      id: "lane",
      title: "lane",
      number: true,
      value: (row) => row.lane,
      render: (row) => <Value of={row.lane} show={count} why={why.lane} />,
    },
    {
      id: "earliest",
      title: "first offset",
      number: true,
      value: (row) => row.earliest,
      render: (row) => <Value of={row.earliest} show={count} why={why.earliest} />,
    },
    {
      id: "latest",
      title: "end offset",
      number: true,
      value: (row) => row.latest,
      render: (row) => <Value of={row.latest} show={count} why={why.latest} />,
    },
    {
      id: "records",
      title: "records",
      number: true,
      value: (row) => row.records,
      render: (row) => <Value of={row.records} show={count} why={why.records} />,
    },
    {
      id: "objects",
      title: "objects",
      number: true,
      value: (row) => row.objects,
      render: (row) => <Value of={row.objects} show={count} why={why.objects} />,
    },
    {
      id: "bytes",
      title: "stored",
      number: true,
      value: (row) => row.bytes,
      render: (row) => <Value of={row.bytes} show={bytes} why={why.bytes} />,
    },
  ];
  return (
    <Loaded answer={answer}>
      {(data) => (
        <Card
          title={plural(data.total, "partition")}
          tools={
            <CsvButton name={`${topic.name}-partitions`} columns={columns} rows={data.items} />
          }
          flush
        >
          <Table
            caption={`Partitions of ${topic.name}`}
            columns={columns}
            rows={data.items}
            rowKey={(row) => String(row.partition)}
            sort={sort}
            onSort={setSort}
          />
          {(data.after !== null || after !== "") && (
            <div className="row table-foot">
              {after !== "" && (
                <button type="button" className="button small" onClick={() => setAfter("")}>
                  First page
                </button>
              )}
              {data.after !== null && (
                <button
                  type="button"
                  className="button small push"
                  onClick={() => setAfter(data.after ?? "")}
                >
                  Next page
                </button>
              )}
            </div>
          )}
        </Card>
      )}
    </Loaded>
  );
}
