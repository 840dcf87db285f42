import { readFileSync } from 'node:fs';

/** Seconds since the machine booted, those in which it slept included. */
export function uptimeSeconds(): number {
  return Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
}
