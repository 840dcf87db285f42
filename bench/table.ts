import type { Summary } from './statistics.ts';

export interface Row {
  measure: string;
  value: Summary | string;
  unit: string;
  /** The goal and the result. */
  goal?: string;
}

const round = (value: number) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

/** Prints rows as a Markdown table. */
export function printTable(title: string, rows: readonly Row[]): void {
  console.log(`\n## ${title}\n\n| measure | n | p50 | p99 | unit | goal and ratio |\n|---|---|---|---|---|---|`);
  for (const { measure, value, unit, goal = '' } of rows) {
    const cells = typeof value === 'string' ? ['', value, ''] : [value.count, round(value.p50), round(value.p99)];
    console.log(`| ${[measure, ...cells, unit, goal].join(' | ')} |`);
  }
}

/** For example `≤ 300 ms: 0.82 ×, met`. */
export function holdAgainst(value: number, goal: number, unit: string): string {
  const ratio = value / goal;
  return `≤ ${round(goal)} ${unit}: ${ratio.toFixed(2)} ×, ${ratio <= 1 ? 'met' : 'not met'}`;
}
