import { expect, test } from "vitest";
import { fromAddress, requestOf } from "../src/pages/messages/question";
import { IDLE, reduce, TAIL_KEEPS } from "../src/pages/messages/search";
import { offsetStep, typedValue } from "../src/pages/reset";
import type { RecordRow } from "../src/shapes";

const record = (offset: number) => ({ partition: 0, offset: String(offset) }) as RecordRow;
const records = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => record(from + at));
const progress = {
  looked_at: 5,
  of: 9,
  bytes: 1,
  found: 2,
  seconds: 1,
  reached_ms: null,
  not_evaluated: 0,
};

test("a search that goes on keeps what was found", () => {
  let state = reduce(IDLE, { do: "search" });
  state = reduce(state, {
    do: "event",
    event: { event: "records", data: { records: records(0, 2), skipped: 0 } },
  });
  state = reduce(state, {
    do: "event",
    event: { event: "end", data: { reason: "budget", after: "c", progress } },
  });
  expect(state.phase).toBe("ended");
  expect(state.end?.after).toBe("c");
  state = reduce(state, { do: "go on" });
  state = reduce(state, {
    do: "event",
    event: { event: "records", data: { records: records(2, 1), skipped: 0 } },
  });
  expect(state.records.map((one) => one.offset)).toEqual(["0", "1", "2"]);
});

test("a tail has the newest on top, a bound, and counts what was left out", () => {
  let state = reduce(IDLE, { do: "follow" });
  for (let at = 0; at < 20; at += 1)
    state = reduce(state, {
      do: "event",
      event: { event: "records", data: { records: records(at * 200, 200), skipped: 10 } },
    });
  expect(state.records).toHaveLength(TAIL_KEEPS);
  expect(state.records[0]?.offset).toBe("3999");
  expect(state.skipped).toBe(200);
});

test("a tail follows once the server has begun, not when it was asked for", () => {
  let state = reduce(IDLE, { do: "follow" });
  expect(state.isOpen).toBe(false);
  state = reduce(state, { do: "event", event: { event: "open", data: null } });
  expect(state.isOpen).toBe(true);
  expect(reduce(state, { do: "follow" }).isOpen).toBe(false);
});

test("an error of the stream ends it and is kept", () => {
  const state = reduce(reduce(IDLE, { do: "search" }), {
    do: "event",
    event: { event: "error", data: { error: { code: "broker", message: "no leader" } } },
  });
  expect(state.phase).toBe("ended");
  expect(state.error?.message).toBe("no leader");
});

test("the address is the question", () => {
  const asked = fromAddress(
    new URLSearchParams("from=offset&at=9,007,199,254,740,993&partition=3&limit=5"),
  );
  expect(requestOf(asked, null)).toMatchObject({
    from_kind: "offset",
    from_value: "9007199254740993",
    partitions: [3],
    limit: 5,
  });
});

test("a limit that is no number is the usual one", () => {
  expect(requestOf(fromAddress(new URLSearchParams("limit=x&mib=-2")), null)).toMatchObject({
    limit: 100,
    budget: { bytes: 256 * 1024 * 1024, seconds: 30 },
  });
});

test("offsets of a reset stay exact", () => {
  expect(offsetStep("9007199254740993", "9007199254740995")).toBe("+2");
  expect(offsetStep(null, "5")).toBeNull();
});

test("a reset says what it does not understand", () => {
  expect(typedValue("age", "2h")).toEqual({ value: "7200000" });
  expect(typedValue("shift", "-100")).toEqual({ value: "-100" });
  expect(() => typedValue("age", "soon")).toThrow("An age is a number");
  expect(() => typedValue("offset", "1.5")).toThrow("no whole number");
});
