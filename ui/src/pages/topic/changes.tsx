// Changes of a whole topic: more partitions, records deleted.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change } from "../../api/client";
import { Problem } from "../../parts/basics";
import { ConfirmDialog, Dialog, useAction } from "../../parts/dialog";
import type { TopicSummary } from "../../shapes";
import { plural } from "../../text/format";

type Props = { topic: TopicSummary; onClose: () => void };

export function AddPartitions({ topic, onClose }: Props) {
  const [partitions, setPartitions] = useState(String(topic.partitions + 1));
  const client = useQueryClient();
  const action = useAction(async () => {
    await change("PATCH", `topics/${encodeURIComponent(topic.name)}`, {
      partitions: Number(partitions),
    });
    await client.invalidateQueries();
  });
  async function submit(event: FormEvent) {
    event.preventDefault();
    if (await action.run()) onClose();
  }
  return (
    <Dialog title={`Add partitions to ${topic.name}`} onClose={onClose}>
      <form onSubmit={submit} className="body">
        <p>
          It has {plural(topic.partitions, "partition")}. Partitions cannot be taken away again, and
          keyed records go to other partitions than before.
        </p>
        <div className="field">
          <label htmlFor="partitions">Partitions in all</label>
          <input
            id="partitions"
            className="input"
            type="number"
            min={topic.partitions + 1}
            required
            value={partitions}
            onChange={(event) => setPartitions(event.target.value)}
          />
        </div>
        {action.error !== null && <Problem error={action.error} />}
        <button type="submit" className="button primary" disabled={action.busy}>
          Add partitions
        </button>
      </form>
    </Dialog>
  );
}

export function EmptyTopic({ topic, onClose }: Props) {
  const [partition, setPartition] = useState("all");
  const [before, setBefore] = useState("");
  const client = useQueryClient();
  return (
    <ConfirmDialog
      title={`Delete records of ${topic.name}`}
      name={topic.name}
      verb="Delete records"
      onClose={onClose}
      onConfirm={async (typed) => {
        await change("DELETE", `topics/${encodeURIComponent(topic.name)}/records`, {
          confirm: typed,
          partition: partition === "all" ? null : Number(partition),
          before: before === "" ? null : before,
        });
        await client.invalidateQueries();
      }}
    >
      <p>
        Deletes records from the beginning of the partitions. The topic and the offsets of its
        groups stay.{" "}
        {topic.records !== null && `There are ${plural(topic.records, "record")} in the topic.`}
      </p>
      <div className="row end">
        <div className="field">
          <label htmlFor="empty-partition">Partition</label>
          <PartitionChoice
            id="empty-partition"
            count={topic.partitions}
            value={partition}
            onChange={setPartition}
          />
        </div>
        <div className="field grow">
          <label htmlFor="empty-before">Before offset</label>
          <input
            id="empty-before"
            className="input mono"
            inputMode="numeric"
            pattern="[0-9]*"
            placeholder="all records there are"
            value={before}
            onChange={(event) => setBefore(event.target.value)}
          />
        </div>
      </div>
    </ConfirmDialog>
  );
}

/** One partition or all; beyond 200 of them, a number is typed. */
export function PartitionChoice({
  id,
  all = "all",
  count,
  value,
  onChange,
}: {
  id: string;
  /** What "all" is called here. */
  all?: string;
  count: number;
  value: string;
  onChange: (value: string) => void;
}) {
  if (count > 200)
    return (
      <input
        id={id}
        className="input short"
        inputMode="numeric"
        placeholder={all}
        value={value === "all" ? "" : value}
        onChange={(event) => onChange(event.target.value === "" ? "all" : event.target.value)}
      />
    );
  return (
    <select
      id={id}
      className="input"
      value={value}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="all">{all}</option>
      {Array.from({ length: count }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the index is the partition
        <option key={at} value={String(at)}>
          {at}
        </option>
      ))}
    </select>
  );
}
