// The records that were found: a table of which only the rows in sight are in the document.
import { useEffect, useRef } from "react";
import { usePreferences } from "../../parts/preferences";
import { useRowWindow } from "../../parts/window";
import type { DecodedBytes, RecordRow } from "../../shapes";
import { bytes, dateTimeMs } from "../../text/format";
import { keyOf } from ".";

const ROW = 34;

export function RecordList({
  records,
  openKey,
  onOpen,
}: {
  records: RecordRow[];
  openKey: string;
  onOpen: (record: RecordRow) => void;
}) {
  const box = useRef<HTMLElement>(null);
  const { zone } = usePreferences();
  const view = useRowWindow(records.length, ROW);
  const { measure } = view;
  useEffect(() => measure(box.current), [measure]);
  return (
    <section
      ref={box}
      className="table-box records"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
      tabIndex={0}
      aria-label="Records"
      onScroll={(event) => measure(event.currentTarget)}
    >
      <table className="table" aria-rowcount={records.length + 1}>
        <caption className="visually-hidden">Records</caption>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" className="num">
              <abbr title="partition">p</abbr>
            </th>
            <th scope="col" className="num">
              offset
            </th>
            <th scope="col">time</th>
            <th scope="col">key</th>
            <th scope="col">value</th>
            <th scope="col" className="num">
              size
            </th>
          </tr>
        </thead>
        <tbody>
          {view.above > 0 && <Gap height={view.above} />}
          {records.slice(view.first, view.last).map((record, at) => (
            <tr
              key={keyOf(record)}
              aria-rowindex={view.first + at + 2}
              aria-current={keyOf(record) === openKey ? "true" : undefined}
              onClick={() => onOpen(record)}
            >
              <td className="num">{record.partition}</td>
              <td className="num">
                <button type="button" className="row-open" onClick={() => onOpen(record)}>
                  {record.offset}
                  <span className="visually-hidden"> of partition {record.partition}, open</span>
                </button>
              </td>
              <td className="mono-num">
                <Moment text={dateTimeMs(record.timestamp_ms ?? -1, zone)} />
              </td>
              <td className="cell-key mono">
                <Shown part={record.key} none="no key" />
              </td>
              <td className="cell-value mono">
                <Shown part={record.value} none="tombstone" />
              </td>
              <td className="num">{bytes(record.bytes)}</td>
            </tr>
          ))}
          {view.below > 0 && <Gap height={view.below} />}
        </tbody>
      </table>
    </section>
  );
}

/** The date can be left out by style where there is little room. */
function Moment({ text }: { text: string }) {
  const cut = text.indexOf(" ");
  return (
    <span title={text}>
      <span className="date">{text.slice(0, cut + 1)}</span>
      {text.slice(cut + 1)}
    </span>
  );
}

function Gap({ height }: { height: number }) {
  return (
    <tr className="gap">
      <td style={{ height }} />
    </tr>
  );
}

export function Shown({ part, none }: { part: DecodedBytes; none: string }) {
  if (part.decoder === "hidden") return <span className="faint">hidden</span>;
  if (part.text === null) return <span className="faint">{none}</span>;
  if (part.text === "") return <span className="faint">empty</span>;
  return <>{part.text.slice(0, 300)}</>;
}
