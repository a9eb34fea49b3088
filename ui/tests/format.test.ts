import { expect, test } from "vitest";
import * as format from "../src/text/format";

test("64-bit integers stay exact", () => {
  expect(format.count("9223372036854775807")).toBe("9,223,372,036,854,775,807");
  expect(format.count(41_220_118)).toBe("41,220,118");
});

test("what is no number is shown as it is", () => {
  expect(format.count("n/a")).toBe("n/a");
});

test("sizes have one unit", () => {
  expect(format.bytes(0)).toBe("0 B");
  expect(format.bytes(1023)).toBe("1,023 B");
  expect(format.bytes(9.1 * 2 ** 30)).toBe("9.1 GiB");
});

test("durations have one unit", () => {
  expect(format.duration(0.038)).toBe("38 ms");
  expect(format.duration(41)).toBe("41 s");
  expect(format.duration(840)).toBe("14 min");
  expect(format.duration(3 * 86_400)).toBe("3 d");
});

test("money that is not nothing never looks like nothing", () => {
  expect(format.money(0)).toBe("0.00");
  expect(format.money(0.004)).toBe("<0.01");
  expect(format.money(1234.5)).toBe("1,234.50");
});

test("times are ISO, 24 hours, in the zone that was asked for", () => {
  expect(format.dateTimeMs("1777639863114", "utc")).toBe("2026-05-01 12:51:03.114");
  expect(format.dateTime("-1", "utc")).toBe("no time");
});

test("a rate that is not zero never looks like zero", () => {
  expect(format.perSecond(0)).toBe("0");
  expect(format.perSecond(0.0004)).toBe("<0.01");
  expect(format.perSecond(12)).toBe("12.0");
});
