// One record: key, value and headers, as they are or indented; whole by download.
import { useEffect, useId, useRef, useState } from "react";
import { address, query, send } from "../../api/client";
import { Facts, Problem, Tag } from "../../parts/basics";
import { useAction } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { usePreferences } from "../../parts/preferences";
import type { DecodedBytes, RecordRow } from "../../shapes";
import { bytes, dateTimeMs } from "../../text/format";
import { hexDump } from "../../text/hex";
import { indented } from "../../text/json";

type View = "pretty" | "raw" | "hex";

export function recordPath(topic: string, record: RecordRow, part: "key" | "value"): string {
  const { partition, offset } = record;
  const snapshot = new URLSearchParams(window.location.search).get("snapshot") ?? "";
  const words = query({ partition, offset, part, snapshot });
  return `topics/${encodeURIComponent(topic)}/records${words}`;
}

export function Detail({
  topic,
  record,
  onClose,
  onSendAgain,
}: {
  topic: string;
  record: RecordRow;
  onClose: () => void;
  onSendAgain?: () => void;
}) {
  const { zone } = usePreferences();
  const [view, setView] = useState<View>("pretty");
  const title = useRef<HTMLHeadingElement>(null);
  const id = useId();
  useEffect(() => title.current?.focus({ preventScroll: true }), []);
  const hidden = record.value.decoder === "hidden";
  return (
    <aside
      className="detail"
      aria-labelledby={id}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <header>
        <h2 id={id} ref={title} tabIndex={-1}>
          {record.partition} / {record.offset}
        </h2>
        <button type="button" className="button quiet icon" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <Facts
        rows={[
          [
            record.timestamp_type === "append" ? "appended" : "created",
            dateTimeMs(record.timestamp_ms ?? -1, zone),
          ],
          ["size", bytes(record.bytes)],
          ["key", <KeyText key="key" part={record.key} />],
          ...record.headers.map((header, at): [string, React.ReactNode] => [
            `${header.key}${at > 0 && record.headers[at - 1]?.key === header.key ? ` (${at + 1})` : ""}`,
            <code key={header.key}>{header.value ?? "null"}</code>,
          ]),
        ]}
      />
      <div className="row">
        <fieldset className="choice">
          <legend className="visually-hidden">How the value is shown</legend>
          {(["pretty", "raw", "hex"] as View[]).map((one) => (
            <label key={one}>
              <input
                type="radio"
                name={`${id}-view`}
                checked={view === one}
                onChange={() => setView(one)}
              />
              <span>{one}</span>
            </label>
          ))}
        </fieldset>
        <Tag>{record.value.decoder}</Tag>
      </div>
      {record.value.note !== null && <p className="faint">{record.value.note}</p>}
      {view === "hex" && !hidden && record.value.text !== null ? (
        <Hex topic={topic} record={record} />
      ) : (
        <ValueText part={record.value} pretty={view === "pretty"} />
      )}
      {record.value.cut && (
        <p className="faint">Cut here. The whole value has {bytes(record.value.bytes)}.</p>
      )}
      <div className="row">
        {!hidden && record.value.text !== null && (
          <>
            <CopyButton text={record.value.text} />
            <a
              className="button small"
              href={address(recordPath(topic, record, "value"))}
              download={`${topic}-${record.partition}-${record.offset}`}
            >
              <Icon name="download" size={15} /> Whole, {bytes(record.value.bytes)}
            </a>
          </>
        )}
        {onSendAgain !== undefined && !hidden && (
          <button type="button" className="button small" onClick={onSendAgain}>
            <Icon name="send" size={15} /> Send again
          </button>
        )}
      </div>
    </aside>
  );
}

function KeyText({ part }: { part: DecodedBytes }) {
  if (part.decoder === "hidden") return <span className="faint">hidden</span>;
  if (part.text === null) return <span className="faint">none</span>;
  return <code>{part.text}</code>;
}

export function ValueText({ part, pretty }: { part: DecodedBytes; pretty: boolean }) {
  if (part.decoder === "hidden")
    return <p className="value-none">Values are hidden in this console.</p>;
  if (part.text === null)
    return <p className="value-none">A tombstone: this record deletes its key.</p>;
  const tokens = pretty && !part.cut ? indented(part.text) : null;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className="value" tabIndex={0}>
      {tokens === null
        ? part.text
        : tokens.map((token, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: tokens have no other name
            <span key={at} className={`j-${token.kind}`}>
              {token.text}
            </span>
          ))}
    </pre>
  );
}

function Hex({ topic, record }: { topic: string; record: RecordRow }) {
  const [text, setText] = useState("Reading…");
  const load = useAction(async () => {
    const answer = await send("GET", recordPath(topic, record, "value"));
    setText(hexDump(new Uint8Array(await answer.arrayBuffer()).subarray(0, 16_384)));
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each record that is opened
  useEffect(() => void load.run(), []);
  if (load.error !== null) return <Problem error={load.error} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className="value" tabIndex={0}>
      {text}
    </pre>
  );
}

function CopyButton({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="button small"
      onClick={async () => {
        await navigator.clipboard.writeText(text);
        setCopied(true);
        setTimeout(() => setCopied(false), 1500);
      }}
    >
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
