import { randomInt } from 'node:crypto';
import { isPortFree } from '../../ops/local-stack/embedded/ports.ts';

/**
 * A port of loopback that nobody listens on now. It is below those that the kernel gives to sockets without a wish, and
 * above those of the platform's programs, so that nothing but another call of this takes it before its use.
 */
export async function freePort(): Promise<number> {
  const port = randomInt(10_000, 20_000);
  return (await isPortFree(port)) ? port : freePort();
}
