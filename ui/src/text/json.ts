// JSON as text: told apart, indented and coloured without being parsed, because parsing would
// round integers beyond 53 bits.

export type JsonToken = {
  kind: "name" | "string" | "number" | "word" | "mark" | "space";
  text: string;
};

const PIECE =
  /("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],:])|([ \t\r\n]+)/y;

/** The pieces of a JSON text, without its spaces; null if it is something else. */
function pieces(text: string): JsonToken[] | null {
  const found: JsonToken[] = [];
  PIECE.lastIndex = 0;
  while (PIECE.lastIndex < text.length) {
    const match = PIECE.exec(text);
    if (match === null) return null;
    if (match[1] !== undefined) found.push({ kind: "string", text: match[1] });
    else if (match[2] !== undefined) found.push({ kind: "number", text: match[2] });
    else if (match[3] !== undefined) found.push({ kind: "word", text: match[3] });
    else if (match[4] !== undefined) found.push({ kind: "mark", text: match[4] });
  }
  return found;
}

/** The tokens of a JSON text with line breaks and two spaces per level; null if it is no JSON. */
export function indented(text: string): JsonToken[] | null {
  const all = pieces(text);
  if (all === null || all.length === 0) return null;
  const out: JsonToken[] = [];
  let depth = 0;
  const line = () => out.push({ kind: "space", text: `\n${"  ".repeat(depth)}` });
  for (const [at, piece] of all.entries()) {
    const next = all[at + 1]?.text;
    if (piece.kind === "string" && next === ":") out.push({ ...piece, kind: "name" });
    else if (piece.text === "{" || piece.text === "[") {
      out.push(piece);
      depth += 1;
      if (next !== "}" && next !== "]") line();
    } else if (piece.text === "}" || piece.text === "]") {
      depth -= 1;
      if (depth < 0) return null;
      const before = all[at - 1]?.text;
      if (before !== "{" && before !== "[") line();
      out.push(piece);
    } else if (piece.text === ",") {
      out.push(piece);
      line();
    } else if (piece.text === ":") out.push({ kind: "mark", text: ": " });
    else out.push(piece);
  }
  return depth === 0 ? out : null;
}

export function joined(tokens: JsonToken[]): string {
  return tokens.map((token) => token.text).join("");
}
