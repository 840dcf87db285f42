import { randomInt } from 'node:crypto';
import { isPortFree } from '../../ops/local-stack/embedded/ports.ts';

/** As many workers of Jest as get ports of their own. */
const workers = 10;
const worker = Number(process.env.JEST_WORKER_ID ?? 1) % workers;
/** What this file of tests has got so far: a port may still be free when the next one is asked for. */
const given = new Set<number>();

/**
 * A port of loopback that nobody listens on now. It is below those that the kernel gives to sockets without a wish, and
 * above those of the platform's programs, and no other worker of Jest gets it, so nothing takes it before its use.
 */
export async function freePort(): Promise<number> {
  const port = 10_000 + randomInt(10_000 / workers) * workers + worker;
  if (given.has(port)) return freePort();
  given.add(port);
  return (await isPortFree(port)) ? port : freePort();
}
