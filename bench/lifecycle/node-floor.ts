import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { inTurn } from '../statistics.ts';

const listener = `require('node:http').createServer((q, r) => r.end('OK')).listen(0, '127.0.0.1', () => process.stdout.write('up'))`;

/** Milliseconds from exec to a bare Node listener that accepts connections. */
export function measureNodeFloor(times: number): Promise<number[]> {
  return inTurn(times, async () => {
    const startedMs = performance.now();
    const child = spawn(process.execPath, ['-e', listener], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    const elapsedMs = performance.now() - startedMs;
    child.kill('SIGKILL');
    await once(child, 'exit');
    return elapsedMs;
  });
}
