import { summarize } from '../statistics.ts';
import type { Row } from '../table.ts';

/** The project's own code, and the library that could replace it. */
export interface Rivals {
  measure: string;
  unit: string;
  better: 'less' | 'more';
  ours(): Promise<number>;
  library(): Promise<number>;
}

const rounds = 5;

/**
 * Measures both alternately, so that other load of the machine slows both. The first round is a warm-up and does not
 * count.
 */
export async function compareInTurns({ measure, unit, better, ours, library }: Rivals): Promise<Row> {
  const [ourValues, libraryValues]: [number[], number[]] = [[], []];
  for (let round = 0; round <= rounds; round += 1) {
    const [our, other] = [await ours(), await library()];
    if (round === 0) continue;
    ourValues.push(our);
    libraryValues.push(other);
  }
  const [our, other] = [summarize(ourValues).p50, summarize(libraryValues).p50];
  const ratio = better === 'less' ? other / our : our / other;
  const verdict = ratio >= 1 ? 'faster' : 'slower';
  const value = `${our.toPrecision(3)} beside ${other.toPrecision(3)}`;
  return { measure, value, unit, goal: `ours is ${ratio.toFixed(2)} × as fast: ${verdict}` };
}
