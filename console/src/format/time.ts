const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'narrow' });

/** Date and time in the reader's zone. */
export const formatTime = (iso: string) => full.format(new Date(iso));
/** For the title of a time: UTC, to the second. */
export const formatUtc = (iso: string) => `${new Date(iso).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

const steps: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** Such as `3 min. ago` or `in 2 hr.` */
export function formatAgo(iso: string, nowMs: number): string {
  const seconds = Math.round((new Date(iso).getTime() - nowMs) / 1000);
  const [unit, length] = steps.find(([, each]) => Math.abs(seconds) >= each) ?? ['second', 1];
  return relative.format(Math.trunc(seconds / length), unit);
}

/** A length of time with its two largest units, such as `2 h 5 min`. */
export function formatDuration(seconds: number): string {
  const units: [string, number][] = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor((seconds % 86_400) / 3600)],
    ['min', Math.floor((seconds % 3600) / 60)],
    ['s', Math.floor(seconds % 60)],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  if (first < 0) return '0 s';
  const shown = units.slice(first, first + 2).filter(([, count]) => count > 0);
  return shown.map(([unit, count]) => `${count}\u00a0${unit}`).join(' ');
}
