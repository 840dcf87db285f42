/** Loaded into a process (`--import`, `--expose-gc`) that answers its parent with its live memory in bytes. */
process.on('message', () => {
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.send({ live: heapUsed + external, rss });
});
