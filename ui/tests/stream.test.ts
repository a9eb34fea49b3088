import { expect, test } from "vitest";
import { EventFrames } from "../src/api/stream";

const TEXT =
  'event: records\ndata: {"records":[{"offset":"9007199254740993"}]}\n\n: still here\n\n' +
  'event: end\r\ndata: {"reason":"limit"}\r\n\r\n';

test("frames may be cut anywhere", () => {
  const whole = new EventFrames().push(TEXT);
  expect(whole.map((event) => event.event)).toEqual(["records", "end"]);
  for (let cut = 1; cut < TEXT.length; cut += 1) {
    const frames = new EventFrames();
    expect([...frames.push(TEXT.slice(0, cut)), ...frames.push(TEXT.slice(cut))]).toEqual(whole);
  }
});

test("one character at a time gives the same", () => {
  const frames = new EventFrames();
  const found = [...TEXT].flatMap((one) => frames.push(one));
  expect(found).toEqual(new EventFrames().push(TEXT));
});
