import type { PauseResult } from '../../../runtime/driver.ts';
import { type MoveName, moveNames } from './moving-sandboxes.ts';

export interface Outcome {
  fault: string;
  move: MoveName;
  ended: string;
  /** What a pause has kept. Null: the move was no pause, or the pause failed. */
  kept: PauseResult['kept'] | null;
}

/** A table of the numbers of outcomes of each kind, with a row for each fault and a column for each move. */
export function faultTable(outcomes: readonly Outcome[]): string {
  const faults = [...new Set(outcomes.map(({ fault }) => fault))];
  const cell = (fault: string, move: MoveName) => {
    const ends = outcomes.filter((each) => each.fault === fault && each.move === move).map(({ ended }) => ended);
    const count = (start: string) => ends.filter((ended) => ended.startsWith(start)).length;
    return `${count('done at once')}/${count('done after a retry')}/${count('failed')}/${count('WRONG')}`;
  };
  const rows = [
    ['fault', ...moveNames],
    ...faults.map((fault) => [fault, ...moveNames.map((move) => cell(fault, move))]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row
      .map((word, column) => word.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  const pauses = (what: Outcome['kept']) => outcomes.filter(({ kept }) => kept === what).length;
  const kept = `${pauses('memory')} pauses kept the memory, ${pauses('disk')} only the disk`;
  return `done at once / done after a retry / failed with a reason / wrong\n${lines.join('\n')}\n${kept}`;
}
