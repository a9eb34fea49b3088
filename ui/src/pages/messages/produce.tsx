// A record to produce: written by hand, or one that is there already, sent again.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { change, send } from "../../api/client";
import { Problem } from "../../parts/basics";
import { Dialog, useAction } from "../../parts/dialog";
import type {
  NewRecord,
  ProducedAnswer,
  RecordHeader,
  RecordRow,
  TopicSummary,
} from "../../shapes";
import { base64 } from "../../text/hex";
import { PartitionChoice } from "../topic/changes";
import { recordPath } from "./detail";

type Encoding = NonNullable<NewRecord["value_encoding"]>;
type Draft = {
  partition: string;
  key: string;
  hasKey: boolean;
  keyEncoding: Encoding;
  value: string;
  hasValue: boolean;
  valueEncoding: Encoding;
  headers: RecordHeader[];
};

const EMPTY: Draft = {
  partition: "all",
  key: "",
  hasKey: false,
  keyEncoding: "text",
  value: "",
  hasValue: true,
  valueEncoding: "text",
  headers: [],
};

/** Text as it was shown, if that is all of it; else the bytes themselves. */
async function part(topic: string, record: RecordRow, name: "key" | "value") {
  const shown = record[name];
  if (shown.text === null) return { text: "", encoding: "text" as const, has: false };
  if (!shown.cut && (shown.decoder === "text" || shown.decoder === "json"))
    return { text: shown.text, encoding: "text" as const, has: true };
  const answer = await send("GET", recordPath(topic, record, name));
  const data = new Uint8Array(await answer.arrayBuffer());
  return { text: base64(data), encoding: "base64" as const, has: true };
}

export default function Produce({
  topic,
  again,
  onClose,
}: {
  topic: TopicSummary;
  again?: RecordRow;
  onClose: () => void;
}) {
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [went, setWent] = useState("");
  const [isRead, setIsRead] = useState(again === undefined); // else an empty record could be sent
  const client = useQueryClient();
  const set = (next: Partial<Draft>) => setDraft((before) => ({ ...before, ...next }));

  const load = useAction(async () => {
    if (again === undefined) return;
    const [key, value] = await Promise.all([
      part(topic.name, again, "key"),
      part(topic.name, again, "value"),
    ]);
    set({
      partition: String(again.partition),
      key: key.text,
      hasKey: key.has,
      keyEncoding: key.encoding,
      value: value.text,
      hasValue: value.has,
      valueEncoding: value.encoding,
      headers: again.headers,
    });
    setIsRead(true);
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, for the record it was opened with
  useEffect(() => void load.run(), []);

  const produce = useAction(async () => {
    const record: NewRecord = {
      partition: draft.partition === "all" ? null : Number(draft.partition),
      key: draft.hasKey ? draft.key : null,
      key_encoding: draft.keyEncoding,
      value: draft.hasValue ? draft.value : null,
      value_encoding: draft.valueEncoding,
      headers: draft.headers.filter((header) => header.key !== ""),
    };
    const path = `topics/${encodeURIComponent(topic.name)}/records`;
    const answer = await change<ProducedAnswer>("POST", path, [record]);
    const [first] = answer.items;
    if (first?.error != null) throw new Error(first.error);
    setWent(`Written to partition ${first?.partition} at offset ${first?.offset}.`);
    await client.invalidateQueries();
  });

  async function submit(event: FormEvent) {
    event.preventDefault();
    setWent("");
    await produce.run();
  }
  const error = load.error ?? produce.error;
  return (
    <Dialog
      title={again === undefined ? `Produce to ${topic.name}` : `Send again to ${topic.name}`}
      onClose={onClose}
      wide
    >
      <form onSubmit={submit} className="body">
        <div className="row end">
          <div className="field">
            <label htmlFor="produce-partition">Partition</label>
            <PartitionChoice
              id="produce-partition"
              all="any"
              count={topic.partitions}
              value={draft.partition}
              onChange={(partition) => set({ partition })}
            />
          </div>
          <p className="faint">any: the key decides, or chance without a key</p>
        </div>
        <Part
          name="Key"
          none="no key"
          has={draft.hasKey}
          text={draft.key}
          encoding={draft.keyEncoding}
          rows={2}
          onChange={(next) => set({ hasKey: next.has, key: next.text, keyEncoding: next.encoding })}
        />
        <Part
          name="Value"
          none="tombstone"
          has={draft.hasValue}
          text={draft.value}
          encoding={draft.valueEncoding}
          rows={8}
          onChange={(next) =>
            set({ hasValue: next.has, value: next.text, valueEncoding: next.encoding })
          }
        />
        <Headers headers={draft.headers} onChange={(headers) => set({ headers })} />
        {error !== null && <Problem error={error} />}
        {went !== "" && (
          <p role="status" className="soft">
            {went}
          </p>
        )}
        <div className="row">
          <button type="submit" className="button primary push" disabled={!isRead || produce.busy}>
            {again === undefined ? "Produce" : "Send again"}
          </button>
          <button type="button" className="button" onClick={onClose}>
            {went === "" ? "Cancel" : "Done"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

type PartValue = { has: boolean; text: string; encoding: Encoding };

function Part({
  name,
  none,
  rows,
  onChange,
  ...value
}: PartValue & {
  name: string;
  none: string;
  rows: number;
  onChange: (next: PartValue) => void;
}) {
  const id = `produce-${name.toLowerCase()}`;
  return (
    <div className="field">
      <div className="row">
        <label className="label" htmlFor={id}>
          {name}
        </label>
        <label className="check push">
          <input
            type="checkbox"
            checked={!value.has}
            onChange={(event) => onChange({ ...value, has: !event.target.checked })}
          />
          {none}
        </label>
        <select
          className="input"
          aria-label={`${name} is written as`}
          disabled={!value.has}
          value={value.encoding}
          onChange={(event) => onChange({ ...value, encoding: event.target.value as Encoding })}
        >
          <option>text</option>
          <option>base64</option>
          <option>hex</option>
        </select>
      </div>
      <textarea
        id={id}
        className="input mono"
        rows={rows}
        disabled={!value.has}
        spellCheck={false}
        value={value.text}
        onChange={(event) => onChange({ ...value, text: event.target.value })}
      />
    </div>
  );
}

function Headers({
  headers,
  onChange,
}: {
  headers: RecordHeader[];
  onChange: (headers: RecordHeader[]) => void;
}) {
  const set = (at: number, next: Partial<RecordHeader>) =>
    onChange(headers.map((header, i) => (i === at ? { ...header, ...next } : header)));
  return (
    <fieldset className="plain stack">
      <legend className="label">Headers</legend>
      {headers.map((header, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: headers may have the same name
        <div className="row" key={at}>
          <input
            className="input mono grow"
            aria-label={`Name of header ${at + 1}`}
            value={header.key}
            onChange={(event) => set(at, { key: event.target.value })}
          />
          <input
            className="input mono grow"
            aria-label={`Value of header ${at + 1}`}
            value={header.value ?? ""}
            onChange={(event) => set(at, { value: event.target.value })}
          />
          <button
            type="button"
            className="button small"
            onClick={() => onChange(headers.filter((_, i) => i !== at))}
          >
            Remove<span className="visually-hidden"> header {at + 1}</span>
          </button>
        </div>
      ))}
      <div>
        <button
          type="button"
          className="button small"
          onClick={() => onChange([...headers, { key: "", value: "", encoding: "text" }])}
        >
          Add header
        </button>
      </div>
    </fieldset>
  );
}
