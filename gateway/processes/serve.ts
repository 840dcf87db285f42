import type { Logger } from 'pino';
import type { SocketHandle } from './bound-socket.ts';
import { Membership } from './membership.ts';

/** How long requests may take to end after an uncaught exception. */
const failingDrainMs = 3000;
const failingExitMs = 5000;

/** The server in one process. */
export interface Serving {
  listenOn(socket: SocketHandle): Promise<unknown>;
  /** Accepts no more connections and lets requests end for up to `drainMs`. */
  close(drainMs?: number): Promise<void>;
}

/**
 * Runs this process as a serving process until the primary or a signal asks it to stop. After an uncaught exception its
 * state is unknown: it stops accepting, drains for a moment and exits with 1, while the others serve and the primary
 * starts another process.
 */
export async function serveAsMember(
  logger: Logger,
  makeServing: (membership: Membership) => Promise<Serving>,
): Promise<void> {
  let serving: Serving | null = null;
  let isEnding = false;

  const end = (code: number, drainMs?: number) => {
    if (isEnding) return;
    isEnding = true;
    membership?.leaving();
    const closed = serving ? serving.close(drainMs) : Promise.resolve();
    closed.then(
      () => process.exit(code),
      (error: unknown) => {
        logger.error({ err: error }, 'a gateway process could not be closed properly');
        process.exit(1);
      },
    );
  };

  let membership: Membership | null = null;
  let hasFailed = false;
  process.on('uncaughtException', (error, origin) => {
    logger.fatal({ err: error, origin }, 'uncaught exception: this process ends');
    // After a second exception the process exits at once.
    if (hasFailed || !serving) process.exit(1);
    hasFailed = true;
    setTimeout(() => process.exit(1), failingExitMs);
    end(1, failingDrainMs);
  });
  process.on('SIGTERM', () => end(0));
  process.on('SIGINT', () => end(0));

  membership = await Membership.join(() => end(0));
  serving = await makeServing(membership);
  await serving.listenOn(membership.socket);
  membership.ready();
}
