// What a page shows is in its address: filters, order, tab, range, the open record.
import { useCallback } from "react";
import { useSearchParams } from "wouter";

/** A value of the query string; the default is not written into it. */
export function useParam(name: string, otherwise = ""): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (value: string) =>
      setParams(
        (before: URLSearchParams) => {
          const next = new URLSearchParams(before);
          if (value === otherwise) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: true },
      ),
    [name, otherwise, setParams],
  );
  return [params.get(name) ?? otherwise, set];
}

/** Several values at once, for changes that belong together. */
export function useParams(): [URLSearchParams, (values: Record<string, string | null>) => void] {
  const [params, setParams] = useSearchParams();
  const set = useCallback(
    (values: Record<string, string | null>) =>
      setParams(
        (before: URLSearchParams) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(values))
            if (value === null || value === "") next.delete(name);
            else next.set(name, value);
          return next;
        },
        { replace: true },
      ),
    [setParams],
  );
  return [params, set];
}

export const topicPath = (name: string, tab = "") =>
  `/topics/${encodeURIComponent(name)}${tab === "" ? "" : `/${tab}`}`;
export const groupPath = (id: string, tab = "") =>
  `/groups/group${tab === "" ? "" : `/${tab}`}?id=${encodeURIComponent(id)}`;
