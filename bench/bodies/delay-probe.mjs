import { monitorEventLoopDelay } from 'node:perf_hooks';

/**
 * Loaded into a process (`--import`). Tells its parent, on request, the longest delay of its event loop since the last
 * request, in ms.
 */
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
process.on('message', () => {
  process.send(delays.max / 1e6);
  delays.reset();
});
