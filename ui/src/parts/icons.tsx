// The icons, drawn here: lines of 1.6 on a field of 20.
import type { ReactNode } from "react";

const PATHS = {
  overview: "M3 10.5 10 4l7 6.5M5 9v7h10V9",
  topics: "M3.5 5.5h13M3.5 10h13M3.5 14.5h8",
  groups:
    "M7 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM2.5 15.5c.6-2.4 2.3-3.6 4.5-3.6s3.900 1.200 4.500 3.600M13 9a2 2 0 1 0 0-4M14.200 12c1.700.3 2.800 1.500 3.300 3.500",
  fleet: "M4 4h12v4.500H4zM4 11.500h12V16H4zM6.800 6.250h.01M6.800 13.750h.01",
  storage:
    "M4 5.500c0-1.100 2.700-2 6-2s6 .9 6 2-2.700 2-6 2-6-.9-6-2ZM4 5.500v9c0 1.100 2.700 2 6 2s6-.9 6-2v-9M4 10c0 1.100 2.700 2 6 2s6-.9 6-2",
  cost: "M10 3v14M13.500 6.200C12.800 5.300 11.600 5 10 5 8 5 6.500 5.900 6.500 7.500c0 3.500 7 1.500 7 5 0 1.600-1.500 2.500-3.500 2.500-1.700 0-3-.5-3.700-1.500",
  pipeline: "M3.500 5.500h4v4h-4zM12.500 10.500h4v4h-4zM7.500 7.500h3a2 2 0 0 1 2 2v1",
  sql: "m5 6 4 4-4 4M10.500 14.500H16",
  activity: "M3 10.500h3l2-5.500 4 10 2-4.500h3",
  users: "M10 9.500a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM4 16.500c.7-3 3-4.500 6-4.500s5.300 1.500 6 4.500",
  transactions: "M4 7h11m0 0-3-3m3 3-3 3M16 13H5m0 0 3-3m-3 3 3 3",
  subscriptions: "M4 4.500h12v8H9l-3 3v-3H4z",
  snapshots:
    "M4 6.500h3l1.200-2h3.600l1.200 2h3v9H4zM10 13.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Z",
  find: "M9 14.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11ZM13 13l3.500 3.500",
  menu: "M3.500 6h13M3.500 10h13M3.500 14h13",
  close: "m5.500 5.500 9 9m0-9-9 9",
  down: "m5.500 8 4.500 4.500L14.500 8",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  warning: "M10 3.500 17.500 16.500h-15zM10 8.500v3.500M10 14.300h.01",
  info: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 9.200V13.500M10 6.700h.01",
  error: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 6.500v4.300M10 13.300h.01",
  good: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM6.800 10.200l2.200 2.200 4.200-4.600",
  download: "M10 3.500v8.500m0 0 3.500-3.500M10 12 6.500 8.500M4 15.500h12",
  plus: "M10 4v12M4 10h12",
  columns: "M4 4.500h12v11H4zM8 4.500v11M12 4.500v11",
  sun: "M10 13.200a3.200 3.200 0 1 0 0-6.400 3.200 3.200 0 0 0 0 6.400ZM10 2.800v1.400M10 15.800v1.400M2.800 10h1.400M15.800 10h1.400M4.900 4.900l1 1M14.100 14.100l1 1M15.100 4.900l-1 1M5.900 14.100l-1 1",
  user: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 10.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 15c.6-1.700 2.100-2.500 4-2.500s3.400.8 4 2.500",
  play: "M6.500 4.500v11l9-5.500z",
  stop: "M5.500 5.500h9v9h-9z",
  send: "M17 3 9 11M17 3l-5 14-3-6-6-3z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg
      viewBox="0 0 20 20"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.4 : 1.6}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
