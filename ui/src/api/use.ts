// Questions of pages, kept fresh while the tab is visible.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import type { SessionFacts as Session } from "../shapes";
import { get } from "./client";

export type Answer<T> = {
  data: T | undefined;
  error: Error | null;
  isLoading: boolean;
  updatedAt: number;
  refetch: () => void;
};

type Settings<T> = {
  /** How often to ask again; false: only once. */
  everyMs?: number | false;
  /** Whether the last answer is shown until there is one to another question. */
  keep?: boolean;
  /** An answer that is there already. */
  first?: T;
};

export function useGet<T>(
  path: string | null,
  { everyMs = 5000, keep = true, first }: Settings<T> = {},
): Answer<T> {
  const answer = useQuery<T, Error>({
    queryKey: [path],
    queryFn: ({ signal }) => get<T>(path as string, signal),
    enabled: path !== null,
    refetchInterval: everyMs,
    placeholderData: keep ? keepPreviousData : undefined,
    initialData: first,
  });
  return {
    data: answer.data,
    error: answer.error,
    isLoading: answer.isLoading,
    updatedAt: answer.dataUpdatedAt,
    refetch: () => void answer.refetch(),
  };
}

const SessionContext = createContext<Session | null>(null);
export const SessionProvider = SessionContext.Provider;

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("pages are shown with a session only");
  return session;
}
