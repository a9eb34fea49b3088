// Numbers, sizes and times as people read them. Pure: the time zone is an argument.

const groups = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** A count in groups of three. Strings are 64-bit integers and stay exact. */
export function count(value: number | string): string {
  if (typeof value === "number") return groups.format(value);
  return /^-?\d+$/.test(value) ? groups.format(BigInt(value)) : value;
}

/** A large count in few characters: 41.2M. */
export function brief(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}B`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return Number.isInteger(value) ? groups.format(value) : digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return groups.format(Math.round(value));
  if (size >= 10) return value.toFixed(1);
  if (size === 0) return "0";
  return size >= 0.01 ? value.toFixed(2) : value.toPrecision(1);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number): string {
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const shown = unit === 0 ? groups.format(Math.round(rest)) : short.format(rest);
  return `${shown} ${UNITS[unit]}`;
}

export function bytesPerSecond(value: number): string {
  return `${bytes(value)}/s`;
}

/** A rate of events. */
export function perSecond(value: number): string {
  return value > 0 && value < 0.01 ? "<0.01" : digits(value);
}

/** How long something takes or took, in one unit: 38 ms, 14 min, 3.2 d. */
export function duration(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 120) return `${short.format(size < 10 ? seconds : Math.round(seconds))} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  if (size < 172_800) return `${short.format(seconds / 3600)} h`;
  return `${short.format(seconds / 86_400)} d`;
}

export function age(fromMs: number, nowMs: number): string {
  const seconds = Math.max(0, (nowMs - fromMs) / 1000);
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

/** Money with two digits, or as many as it takes to see that it is not nothing. */
export function money(value: number): string {
  if (value === 0) return "0.00";
  if (Math.abs(value) < 0.01) return "<0.01";
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return "0 %";
  return `${short.format((part / whole) * 100)} %`;
}

export type Zone = "local" | "utc";

const two = (value: number) => String(value).padStart(2, "0");
const three = (value: number) => String(value).padStart(3, "0");

function parts(ms: number, zone: Zone) {
  const at = new Date(ms);
  return zone === "utc"
    ? {
        date: `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`,
        clock: `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`,
        ms: three(at.getUTCMilliseconds()),
      }
    : {
        date: `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`,
        clock: `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`,
        ms: three(at.getMilliseconds()),
      };
}

/** 2026-05-01 12:51:03, in the zone that was asked for. Kafka's -1 means: no time. */
export function dateTime(value: number | string, zone: Zone): string {
  const ms = Number(value);
  if (!Number.isFinite(ms) || ms < 0) return "no time";
  const at = parts(ms, zone);
  return `${at.date} ${at.clock}`;
}

export function dateTimeMs(value: number | string, zone: Zone): string {
  const ms = Number(value);
  if (!Number.isFinite(ms) || ms < 0) return "no time";
  const at = parts(ms, zone);
  return `${at.date} ${at.clock}.${at.ms}`;
}

export function clock(ms: number, zone: Zone): string {
  return parts(ms, zone).clock;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${groups.format(value)} ${value === 1 ? one : many}`;
}
