import { expect, test } from "vitest";
import { rowWindow } from "../src/parts/window";

test("only rows near what is seen are in the document", () => {
  const view = rowWindow(10_000, 34, 34 * 5000, 680);
  expect(view.last - view.first).toBeLessThan(40);
  expect(view.first).toBeLessThanOrEqual(5000);
  expect(view.last).toBeGreaterThan(5020);
});

test("gaps and rows add up to the whole list", () => {
  for (const top of [0, 1, 333, 34 * 99, 1e9]) {
    const view = rowWindow(100, 34, top, 300);
    expect(view.above + (view.last - view.first) * 34 + view.below).toBe(3400);
  }
});

test("an empty list has no rows", () => {
  expect(rowWindow(0, 34, 0, 300)).toMatchObject({ first: 0, last: 0, above: 0, below: 0 });
});
