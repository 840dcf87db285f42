import fs from 'node:fs';

/** Seconds of a test file: by part, and the processor time of its worker process and of the programs that it started. */
interface FileTimes {
  file: string;
  load: number;
  setUp: number;
  tests: number;
  tearDown: number;
  cpu: number;
  programs: number;
}

const parts = ['load', 'setUp', 'tests', 'tearDown'] as const;
const slowestFiles = 40;

/** Prints where the time of a run went: by folder of tests, and for the slowest files. */
export function printTestTimes(file: string): void {
  const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  const files: FileTimes[] = lines.map((line) => JSON.parse(line));
  const groups = Map.groupBy(files, (each) => each.file.split('/')[1]!);
  const sum = (name: string, each: readonly FileTimes[]) => ({
    name,
    files: each.length,
    total: seconds(each, (times) => sumTimes(times)),
    ...Object.fromEntries(parts.map((part) => [part, seconds(each, (times) => times[part])])),
    cpu: seconds(each, ({ cpu }) => cpu),
    programs: seconds(each, ({ programs }) => programs),
  });
  const byTotal = (a: { total: number }, b: { total: number }) => b.total - a.total;
  console.log('\nSeconds by folder (cpu: processor time of the workers of Jest; programs: of what tests started)');
  console.table([...groups].map(([name, each]) => sum(name, each)).sort(byTotal));
  console.table([sum('all', files)]);
  console.log(`Seconds of the ${slowestFiles} slowest files`);
  console.table(
    files
      .map((each) => sum(each.file, [each]))
      .sort(byTotal)
      .slice(0, slowestFiles)
      .map(({ files: _, ...row }) => row),
  );
}

const sumTimes = (times: FileTimes) => parts.reduce((sum, part) => sum + times[part], 0);

function seconds(files: readonly FileTimes[], of: (times: FileTimes) => number): number {
  return Math.round(files.reduce((sum, each) => sum + of(each), 0) * 10) / 10;
}
