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

/** `everyMs`: how often to ask again; false: only once. */
export function useGet<T>(
  path: string | null,
  { everyMs = 5000 as number | false, keep = true } = {},
): Answer<T> {
  const answer = useQuery<T, Error>({
    queryKey: [path],
    queryFn: ({ signal }) => get<T>(path as string, signal),
    enabled: path !== null,
    refetchInterval: everyMs,
    placeholderData: keep ? keepPreviousData : undefined,
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
