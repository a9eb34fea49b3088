// A table: real rows and columns, sorted by the server or, where all rows are here, by the page.
import { type ReactNode, useId, useMemo, useRef } from "react";
import { csv, download } from "../text/csv";
import { Icon } from "./icons";
import { preferences, usePreferences } from "./preferences";

export type Column<Row> = {
  id: string;
  title: string;
  render: (row: Row) => ReactNode;
  number?: boolean;
  /** The value that is sorted by and exported. */
  value?: (row: Row) => string | number | null | undefined;
  sortable?: boolean;
  wrap?: boolean;
  /** Hidden until it is chosen. */
  extra?: boolean;
};

type Props<Row> = {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  sort?: string; // "bytes", or "-bytes" for the largest first
  onSort?: (sort: string) => void;
  isCurrent?: (row: Row) => boolean;
  foot?: ReactNode;
  empty?: ReactNode;
};

export function Table<Row>(props: Props<Row>) {
  const { caption, columns, rows, rowKey, sort, onSort, isCurrent, foot, empty } = props;
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section className="table-box" tabIndex={0} aria-label={caption}>
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <Head key={column.id} column={column} first={at === 0} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} aria-current={isCurrent?.(row) ? "true" : undefined}>
              {columns.map((column, at) =>
                at === 0 ? (
                  <th key={column.id} scope="row" className="first">
                    {column.render(row)}
                  </th>
                ) : (
                  <td key={column.id} className={cellClass(column)}>
                    {column.render(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
        {foot !== undefined && <tfoot>{foot}</tfoot>}
      </table>
    </section>
  );
}

function cellClass<Row>(column: Column<Row>): string | undefined {
  if (column.number) return "num";
  return column.wrap ? "wrap" : undefined;
}

function Head<Row>({
  column,
  first,
  sort,
  onSort,
}: {
  column: Column<Row>;
  first: boolean;
  sort?: string;
  onSort?: (sort: string) => void;
}) {
  const down = sort === `-${column.id}`;
  const active = down || sort === column.id;
  const name = `${column.number ? "num" : ""} ${first ? "first" : ""}`.trim();
  if (onSort === undefined || column.sortable === false)
    return (
      <th scope="col" className={name}>
        {column.title}
      </th>
    );
  const first_way = column.number ? `-${column.id}` : column.id;
  const other_way = column.number ? column.id : `-${column.id}`;
  return (
    <th
      scope="col"
      className={name}
      aria-sort={active ? (down ? "descending" : "ascending") : undefined}
    >
      <button
        type="button"
        className="sort"
        onClick={() => onSort(sort === first_way ? other_way : first_way)}
      >
        {column.title}
        <Icon name="down" />
      </button>
    </th>
  );
}

/** Rows in the order of `sort`, for tables whose rows are all here. Unknown values come last. */
export function useSorted<Row>(rows: Row[], columns: Column<Row>[], sort: string): Row[] {
  return useMemo(() => {
    const down = sort.startsWith("-");
    const by = columns.find((column) => column.id === (down ? sort.slice(1) : sort))?.value;
    if (by === undefined) return rows;
    return [...rows].sort((left, right) => {
      const [a, b] = [by(left), by(right)];
      if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
      if (b === null || b === undefined) return -1;
      const order =
        typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return down ? -order : order;
    });
  }, [rows, columns, sort]);
}

/** Which columns are shown: those chosen in this browser, else all that are not extra. */
export function useColumns<Row>(table: string, all: Column<Row>[]): Column<Row>[] {
  const { columns } = usePreferences();
  const chosen = columns[table];
  return useMemo(
    () =>
      all.filter((column, at) =>
        at === 0 ? true : chosen === undefined ? !column.extra : chosen.includes(column.id),
      ),
    [all, chosen],
  );
}

export function ColumnChooser<Row>({ table, all }: { table: string; all: Column<Row>[] }) {
  const shown = useColumns(table, all).map((column) => column.id);
  const { columns } = usePreferences();
  function toggle(id: string) {
    const next = shown.includes(id) ? shown.filter((one) => one !== id) : [...shown, id];
    preferences.set({ columns: { ...columns, [table]: next } });
  }
  return (
    <Menu label="Columns" icon="columns">
      <fieldset>
        <legend>Columns</legend>
        {all.slice(1).map((column) => (
          <label key={column.id} className="check">
            <input
              type="checkbox"
              checked={shown.includes(column.id)}
              onChange={() => toggle(column.id)}
            />
            {column.title}
          </label>
        ))}
      </fieldset>
    </Menu>
  );
}

export function CsvButton<Row>({
  name,
  columns,
  rows,
}: {
  name: string;
  columns: Column<Row>[];
  rows: Row[];
}) {
  return (
    <button
      type="button"
      className="button"
      disabled={rows.length === 0}
      onClick={() =>
        download(
          `${name}.csv`,
          csv(
            columns.map((column) => column.id),
            rows.map((row) => columns.map((column) => column.value?.(row))),
          ),
          "text/csv",
        )
      }
    >
      <Icon name="download" size={16} /> CSV
    </button>
  );
}

/** A button with a panel below it. */
export function Menu({
  label,
  icon,
  quiet = false,
  iconOnly = false,
  children,
}: {
  label: string;
  icon?: Parameters<typeof Icon>[0]["name"];
  quiet?: boolean;
  iconOnly?: boolean;
  children: ReactNode;
}) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  function place(event: React.ToggleEvent<HTMLDivElement>) {
    const box = button.current?.getBoundingClientRect();
    if (event.newState !== "open" || box === undefined) return;
    const panel = event.currentTarget;
    panel.style.top = `${box.bottom + 6}px`;
    panel.style.left = `${Math.max(8, Math.min(box.right - panel.offsetWidth, innerWidth - panel.offsetWidth - 8))}px`;
  }
  return (
    <>
      <button
        ref={button}
        type="button"
        className={`button ${quiet ? "quiet" : ""} ${iconOnly ? "icon" : ""}`}
        popoverTarget={id}
        aria-haspopup="true"
        aria-label={iconOnly ? label : undefined}
        title={iconOnly ? label : undefined}
      >
        {icon !== undefined && <Icon name={icon} size={iconOnly ? 19 : 16} />}
        {!iconOnly && label}
      </button>
      <div id={id} popover="auto" className="menu" onToggle={place}>
        {children}
      </div>
    </>
  );
}
