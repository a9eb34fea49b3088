// Bytes as text: a hex dump, and base64 for sending them again.

export function hexDump(data: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = data.subarray(at, at + 16);
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const text = Array.from(row, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".",
    );
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left}  ${right}  ${text.join("")}`);
  }
  return lines.join("\n");
}

export function base64(data: Uint8Array): string {
  let text = "";
  for (let at = 0; at < data.length; at += 8192)
    text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
