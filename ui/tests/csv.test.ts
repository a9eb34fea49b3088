import { expect, test } from "vitest";
import { csv } from "../src/text/csv";

test("cells with commas, quotes and line ends are quoted", () => {
  expect(csv(["a", "b"], [['x,"y"', "1\n2"]])).toBe('a,b\r\n"x,""y""","1\n2"\r\n');
});

test("a formula stays text, a number stays a number", () => {
  expect(csv(["v"], [["=1+1"], ["-5"], ["-x"], [null]])).toBe("v\r\n'=1+1\r\n-5\r\n'-x\r\n\r\n");
});
