import { expect, test } from "vitest";
import { indented, joined } from "../src/text/json";

const pretty = (text: string) => {
  const tokens = indented(text);
  return tokens === null ? null : joined(tokens);
};

test("indenting does not round numbers", () => {
  expect(pretty('{"id":73314510714175488,"e":1.10,"big":1e400}')).toBe(
    '{\n  "id": 73314510714175488,\n  "e": 1.10,\n  "big": 1e400\n}',
  );
});

test("strings keep what looks like structure", () => {
  expect(pretty('{"a":"{[,:]}\\"x\\""}')).toBe('{\n  "a": "{[,:]}\\"x\\""\n}');
});

test("nothing but spaces changes", () => {
  const text = '[{"a":[],"b":{}},[1,2,[null,true]],"<script>alert(1)</script>"]';
  expect(pretty(text)?.replaceAll(/\s/g, "")).toBe(text);
});

test("what is no JSON is left alone", () => {
  for (const text of ["", "hello", "{a:1}", "[1,2", "]", '{"a":1', "<b>"])
    expect(pretty(text)).toBeNull();
});
