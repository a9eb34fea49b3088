// The groups that read a topic.
import { query } from "../../api/client";
import { useGet } from "../../api/use";
import { useParam } from "../../parts/address";
import { Card, Loaded } from "../../parts/basics";
import type { GroupList } from "../../shapes";
import { GroupTable, NoGroups } from "../groups";

export default function TopicGroups({ name }: { name: string }) {
  const [sort, setSort] = useParam("sort", "-lag");
  const answer = useGet<GroupList>(`groups${query({ topic: name, sort, limit: 200 })}`);
  return (
    <Loaded answer={answer}>
      {(data) => (
        <Card flush>
          <GroupTable
            rows={data.items}
            sort={sort}
            onSort={setSort}
            empty={<NoGroups topic={name} />}
          />
        </Card>
      )}
    </Loaded>
  );
}
