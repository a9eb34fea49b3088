// A window of rows: of a long list, only the rows that can be seen are in the document.
import { useCallback, useState } from "react";

export type RowWindow = { first: number; last: number; above: number; below: number };

/** Which rows of `count` are shown, and how high the gaps above and below them are. */
export function rowWindow(
  count: number,
  rowHeight: number,
  scrollTop: number,
  height: number,
  spare = 8,
): RowWindow {
  const from = Math.floor(Math.max(0, scrollTop) / rowHeight) - spare;
  const first = Math.max(0, Math.min(from, Math.max(0, count - 1)));
  const last = Math.min(count, first + Math.ceil(height / rowHeight) + 2 * spare);
  return { first, last, above: first * rowHeight, below: (count - last) * rowHeight };
}

export function useRowWindow(count: number, rowHeight: number) {
  const [place, setPlace] = useState({ top: 0, height: 700 });
  const measure = useCallback((element: HTMLElement | null) => {
    if (element !== null) setPlace({ top: element.scrollTop, height: element.clientHeight || 700 });
  }, []);
  return { ...rowWindow(count, rowHeight, place.top, place.height), measure };
}
