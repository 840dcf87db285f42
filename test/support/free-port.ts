import { randomInt } from 'node:crypto';
import { isPortFree } from '../../ops/local-stack/embedded/port-probe.mjs';

/** The number of Jest workers that get separate ports. */
const workers = 10;
const worker = Number(process.env.JEST_WORKER_ID ?? 1) % workers;
/** Ports that this test file has already got. A port may still be free when the next one is requested. */
const given = new Set<number>();

/**
 * A free port of loopback. It is below the ports that the kernel assigns by itself, above those of the platform's
 * programs, and in no other Jest worker's range, so no other program takes it before its use.
 */
export async function freePort(): Promise<number> {
  const port = 10_000 + randomInt(10_000 / workers) * workers + worker;
  if (given.has(port)) return freePort();
  given.add(port);
  return (await isPortFree(port)) ? port : freePort();
}
