import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Loaded into a process (`--import`) that answers its parent with the longest delay of its event loop since it was last asked, ms. */
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
process.on('message', () => {
  process.send(delays.max / 1e6);
  delays.reset();
});
