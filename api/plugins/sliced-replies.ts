import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { z } from 'zod';

/** The time after which other requests get a turn of the event loop. */
const turnMs = 5;

/**
 * Writes lists item by item, with turns for other requests in between: a hundred sandboxes with the largest
 * allowed variables have 14 MB, whose check and text take a tenth of a second.
 */
export const slicedReplies = fp(
  async (app) => {
    app.addHook('preSerialization', async (request, reply, payload) => {
      const schema = listIn(request, reply.statusCode, payload);
      if (schema === null) return payload;
      const bytes = await serializeReply(schema, payload);
      reply.serializer(() => bytes as unknown as string);
      return payload;
    });
  },
  { name: 'sliced-replies' },
);

type Value = Record<string, unknown>;

/** The schema of a reply that is a list, or whose `data` has one. */
function listIn(request: FastifyRequest, status: number, payload: unknown): z.ZodObject | z.ZodArray | null {
  const data = Array.isArray(payload) ? [payload] : (payload as { data?: unknown } | null)?.data;
  if (typeof data !== 'object' || data === null) return null;
  if (!Object.values(data).some((each) => Array.isArray(each) && each.length > 1)) return null;
  const { response } = (request.routeOptions.schema ?? {}) as { response?: Record<number, unknown> };
  const schema = response?.[status];
  return schema instanceof z.ZodObject || schema instanceof z.ZodArray ? schema : null;
}

/** The text of the usual serializer, as bytes: the conversion of a long text would be a long turn, too. */
async function serializeReply(schema: z.ZodObject | z.ZodArray, payload: unknown): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let began = performance.now();
  const write = async (type: z.ZodType, value: unknown, before: string): Promise<void> => {
    if (type instanceof z.ZodArray && Array.isArray(value)) {
      pieces.push(Buffer.from(`${before}[`));
      for (const [index, item] of value.entries()) {
        if (performance.now() - began > turnMs) {
          await nextTurn();
          began = performance.now();
        }
        await write(type.element as z.ZodType, item, index === 0 ? '' : ',');
      }
      pieces.push(Buffer.from(']'));
      return;
    }
    const text = JSON.stringify(z.encode(type, value));
    if (text !== undefined) pieces.push(Buffer.from(before + text));
  };
  const writeFields = async (object: z.ZodObject, value: Value): Promise<void> => {
    let before = '{';
    for (const [name, type] of Object.entries<z.ZodType>(object.shape)) {
      const label = `${before}${JSON.stringify(name)}:`;
      const many = pieces.length;
      if (name === 'data' && type instanceof z.ZodObject) {
        pieces.push(Buffer.from(label));
        await writeFields(type, value[name] as Value);
      } else await write(type, value[name], label);
      // A missing field writes nothing.
      if (pieces.length > many) before = ',';
    }
    pieces.push(Buffer.from('}'));
  };
  await (schema instanceof z.ZodObject ? writeFields(schema, payload as Value) : write(schema, payload, ''));
  return Buffer.concat(pieces);
}
