// Rows as CSV and as JSON lines, for downloads.

type Cell = string | number | boolean | null | undefined;

function cell(value: Cell): string {
  const text = value === null || value === undefined ? "" : String(value);
  // A leading = + - @ is a formula to spreadsheets: a quote keeps it text. Numbers stay numbers.
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(header: string[], rows: Cell[][]): string {
  return [header, ...rows]
    .map((row) => row.map(cell).join(","))
    .join("\r\n")
    .concat("\r\n");
}

/** Hands a text to the browser as a file. */
export function download(name: string, text: string, type: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
