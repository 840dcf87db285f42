import { timingSafeEqual } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { z } from 'zod';

/** A payload as Temporal's Web UI and CLI send it: bytes in base64. */
const payloadSchema = z.object({
  metadata: z.record(z.string(), z.string()).nullish(),
  data: z.string().nullish(),
});
const payloadsSchema = z.object({ payloads: z.array(payloadSchema).nullish() });

export interface CodecServerOptions {
  codec: PayloadCodec;
  /** Part of the path; whoever does not know it gets 404. */
  accessToken: string;
  /** The Web UI's origin, which browsers must be told to let in. */
  webUiOrigin: string | null;
}

/**
 * Lets operators read workflow payloads in Temporal's Web UI and CLI: `POST /codec/<token>/decode` and `…/encode`,
 * in the protocol both speak. The Web UI cannot send a header of ours, so the token is in the path.
 */
export const codecServer = fp<CodecServerOptions>(
  async (app, { codec, accessToken, webUiOrigin }) => {
    const allowWebUi = (reply: FastifyReply) => {
      if (!webUiOrigin) return reply;
      return reply
        .header('access-control-allow-origin', webUiOrigin)
        .header('access-control-allow-methods', 'POST, OPTIONS')
        .header('access-control-allow-headers', 'content-type, x-namespace, authorization')
        .header('access-control-allow-credentials', 'true')
        .header('vary', 'origin');
    };
    const isOpen = (request: FastifyRequest) => same((request.params as { token: string }).token, accessToken);
    // Quiet, because the Web UI asks for every payload that it shows.
    const config = { public: true, quiet: true };

    for (const direction of ['decode', 'encode'] as const) {
      const url = `/codec/:token/${direction}`;
      app.options(url, { schema: { hide: true }, config }, async (_request, reply) =>
        allowWebUi(reply).code(204).send(),
      );
      app.post(url, { schema: { hide: true }, config }, async (request, reply) => {
        const body = payloadsSchema.safeParse(request.body);
        if (!isOpen(request)) return reply.callNotFound();
        if (!body.success) return allowWebUi(reply).code(400).send({ message: 'Not a list of payloads' });
        const done = await codec[direction]((body.data.payloads ?? []).map(fromJson));
        return allowWebUi(reply)
          .type('application/json')
          .serializer(JSON.stringify)
          .send({ payloads: done.map(toJson) });
      });
    }
  },
  { name: 'codec-server' },
);

function fromJson({ metadata, data }: z.infer<typeof payloadSchema>): Payload {
  const bytes = Object.entries(metadata ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64')] as const);
  return { metadata: Object.fromEntries(bytes), data: Buffer.from(data ?? '', 'base64') };
}

function toJson({ metadata, data }: Payload) {
  const texts = Object.entries(metadata ?? {}).map(([key, value]) => [key, base64(value)] as const);
  return { metadata: Object.fromEntries(texts), data: base64(data ?? new Uint8Array()) };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');

function same(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
