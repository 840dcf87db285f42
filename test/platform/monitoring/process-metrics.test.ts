import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';

const metrics = path.resolve(import.meta.dirname, '../../../platform/monitoring/process-metrics.ts');

test('the metrics of an idle process wake it at most twenty times a second', async () => {
  const program = `
    import { readFileSync } from 'node:fs';
    import { setTimeout as delay } from 'node:timers/promises';
    import { createProcessRegistry } from ${JSON.stringify(metrics)};
    const wakeups = () => Number(/^voluntary_ctxt_switches:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))[1]);
    const registry = createProcessRegistry(null);
    await delay(500);
    const [before, beganMs] = [wakeups(), performance.now()];
    await delay(2000);
    const aSecond = (wakeups() - before) / ((performance.now() - beganMs) / 1000);
    console.log(JSON.stringify({ aSecond, isMeasured: /^nodejs_eventloop_lag_p99_seconds 0\\.\\d/m.test(await registry.metrics()) }));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
  const { aSecond, isMeasured } = JSON.parse(stdout);
  expect(isMeasured).toBe(true);
  expect(aSecond).toBeLessThan(20);
});
