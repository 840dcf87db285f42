/**
 * The longest time for which one turn of the event loop used the processor during some work. Time in which other
 * programs have the processor does not count, so a busy machine changes little.
 */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMicros = 0;
  let before = process.threadCpuUsage();
  const measure = () => {
    const { user, system } = process.threadCpuUsage(before);
    longestMicros = Math.max(longestMicros, user + system);
    before = process.threadCpuUsage();
  };
  let timer: NodeJS.Immediate;
  const measureTurns = () => {
    measure();
    timer = setImmediate(measureTurns);
  };
  timer = setImmediate(measureTurns);
  try {
    await work();
    measure();
  } finally {
    clearImmediate(timer);
  }
  return longestMicros / 1000;
}
