// What is asked of a topic: as an address, and as a request.
import type { SearchRequest, TailRequest } from "../../shapes";

export type Question = {
  from: "newest" | "oldest" | "offset" | "time";
  at: string; // an offset, or a local time of the form
  partition: string; // "all" or a number
  find: string;
  filter: string;
  keyAs: NonNullable<SearchRequest["key_as"]>;
  valueAs: NonNullable<SearchRequest["value_as"]>;
  limit: string;
  mib: string;
  seconds: string;
  snapshot: string; // empty: as it is now
};

export const DECODERS = [
  "auto",
  "text",
  "json",
  "hex",
  "base64",
  "int32",
  "int64",
  "float",
  "double",
  "uuid",
  "avro",
  "protobuf",
  "registry",
] as const;

/** Names in the address, and what is meant where they are missing. */
export const ASKED = {
  from: "newest",
  at: "",
  partition: "all",
  find: "",
  filter: "",
  key_as: "auto",
  value_as: "auto",
  limit: "100",
  mib: "256",
  seconds: "30",
  snapshot: "",
};

export function fromAddress(params: URLSearchParams): Question {
  const read = (name: keyof typeof ASKED) => params.get(name) ?? ASKED[name];
  return {
    from: read("from") as Question["from"],
    at: read("at"),
    partition: read("partition"),
    find: read("find"),
    filter: read("filter"),
    keyAs: read("key_as") as Question["keyAs"],
    valueAs: read("value_as") as Question["valueAs"],
    limit: read("limit"),
    mib: read("mib"),
    seconds: read("seconds"),
    snapshot: read("snapshot"),
  };
}

function whole(text: string, otherwise: number, most: number): number {
  const value = Math.round(Number(text));
  return Number.isFinite(value) && value >= 1 ? Math.min(value, most) : otherwise;
}

function partitions(question: Question): number[] {
  return /^\d+$/.test(question.partition) ? [Number(question.partition)] : [];
}

export function rangeOf(question: Question) {
  const at =
    question.from === "time"
      ? String(Date.parse(question.at))
      : question.from === "offset"
        ? question.at.replaceAll(/[,_\s]/g, "")
        : null;
  const known = at !== null && /^-?\d{1,19}$/.test(at);
  return {
    from_kind: known || at === null ? question.from : ("oldest" as const),
    from_value: known ? at : null,
    partitions: partitions(question),
    snapshot: question.snapshot === "" ? null : question.snapshot,
  };
}

export function requestOf(question: Question, after: string | null): SearchRequest {
  return {
    ...rangeOf(question),
    find: question.find,
    filter: question.filter,
    key_as: question.keyAs,
    value_as: question.valueAs,
    limit: whole(question.limit, 100, 10_000),
    budget: {
      bytes: whole(question.mib, 256, 1 << 20) * 1024 * 1024,
      seconds: whole(question.seconds, 30, 600),
    },
    after,
  };
}

export function tailOf(question: Question): TailRequest {
  return {
    partitions: partitions(question),
    find: question.find,
    filter: question.filter,
    key_as: question.keyAs,
    value_as: question.valueAs,
  };
}
