import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { ApiDependencies } from './dependencies.ts';

const stalledReaderMs = 60_000;

/** The interval of keepalives while a stream has no events. */
export const keepaliveMs = 15_000;
export const keepaliveFrame = Buffer.from('event: keepalive\ndata: {}\n\n');

/** Replies with server-sent events. A reader that accepts no data for a minute, not even keepalives, is disconnected. */
export function sendEventStream(
  reply: FastifyReply,
  deps: Pick<ApiDependencies, 'stalledReaderMs'>,
  frames: AsyncIterable<Buffer>,
): FastifyReply {
  reply.raw.setTimeout(deps.stalledReaderMs ?? stalledReaderMs, () => reply.raw.destroy());
  return reply
    .headers({ 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
    .type('text/event-stream')
    .send(Readable.from(frames, { objectMode: false }));
}

/** Waits for a promise, a time or an abort. Removes its listener from `signal` afterwards, because `signal` outlives the streams. */
export function within<T>(promise: Promise<T>, ms: number, signal: AbortSignal): Promise<T | 'silence' | 'aborted'> {
  return new Promise((resolve, reject) => {
    const onAbort = () => settle(() => resolve('aborted'));
    const timer = setTimeout(() => settle(() => resolve('silence')), ms);
    const settle = (by: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      by();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
  });
}
