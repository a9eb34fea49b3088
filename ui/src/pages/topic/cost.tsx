// What one topic costs, by requests, bytes moved and bytes stored.
import { useGet } from "../../api/use";
import { Card, Empty, Facts, Loaded, Tile, Tiles, Value } from "../../parts/basics";
import type { CostPage, CostRow, TopicSummary } from "../../shapes";
import { brief, bytes, money, percent } from "../../text/format";

const OPERATIONS = ["put", "get", "head", "list", "delete"];

export default function TopicCost({ topic }: { topic: TopicSummary }) {
  const answer = useGet<CostPage>("cost", { everyMs: 30_000 });
  return (
    <Loaded answer={answer}>
      {(data) => {
        const row = data.items.find((one) => one.topic === topic.name);
        const share = data.shared.find((one) => one.topic === topic.name);
        if (share !== undefined)
          return (
            <Card title="A share of shared logs">
              <p>
                This topic lies in logs that several topics share. By its bytes (
                {bytes(share.stored_bytes)}, {percent(share.share, 1)} of them), its part of their
                price is about {money(share.month)} {data.currency} a month.
              </p>
            </Card>
          );
        if (row === undefined)
          return (
            <Empty icon="cost" title="No request was counted yet">
              <p>Brokers have asked nothing of the bucket for this topic since they started.</p>
            </Empty>
          );
        return <Bill row={row} data={data} />;
      }}
    </Loaded>
  );
}

function Bill({ row, data }: { row: CostRow; data: CostPage }) {
  return (
    <>
      <Tiles>
        <Tile label={`${data.currency} a month`}>{money(row.month)}</Tile>
        <Tile label="Requests, a month">{money(row.requests_month)}</Tile>
        <Tile label="Storage, a month">
          <Value of={row.storage_month} show={money} why={data.unknown.storage_month} />
        </Tile>
        <Tile label="Transfer, a month">{money(row.transfer_month)}</Tile>
      </Tiles>
      <Card title="In a day, as on S3, at the pace so far">
        <Facts
          rows={[
            ...OPERATIONS.map((operation): [string, string] => [
              operation.toUpperCase(),
              brief(Math.round(row.requests[operation] ?? 0)),
            ]),
            ["written", bytes(row.written_bytes)],
            ["read", bytes(row.read_bytes)],
            ["stored", row.stored_bytes === null ? "not known" : bytes(row.stored_bytes)],
          ]}
        />
      </Card>
    </>
  );
}
