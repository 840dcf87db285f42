import { monitorEventLoopDelay } from 'node:perf_hooks';

/** The API's process, which tells its parent the longest delay of its event loop since it was last asked. */
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
process.on('message', () => {
  process.send!(delays.max / 1e6);
  delays.reset();
});
await import('../../api/server.ts');
