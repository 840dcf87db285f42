import { readFileSync } from 'node:fs';

/** Seconds since the machine booted, including those in which it slept. */
export function uptimeSeconds(): number {
  return Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
}
