import type { JsonValue, MessageInitShape } from '@bufbuild/protobuf';
import type { SendInputRequestSchema } from '../proto/gen/sandboxagent_pb.js';

const shortBase64 = /^(?:[A-Za-z0-9+/]{4}){0,1024}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Decodes short input for a process that is given by its pid, which a terminal sends for each key. Reflection would
 * take longer than all other work of the call. Undefined: the message has another form.
 */
export function decodeInput(json: JsonValue): MessageInitShape<typeof SendInputRequestSchema> | undefined {
  const { process, input } = json as Record<string, unknown>;
  const [selector, pid] = onlyField(process);
  const [kind, text] = onlyField(input);
  // The bitwise operation is true for the numbers that fit the field.
  if (selector !== 'pid' || typeof pid !== 'number' || pid >>> 0 !== pid) return undefined;
  if ((kind !== 'stdin' && kind !== 'pty') || typeof text !== 'string' || !shortBase64.test(text)) return undefined;
  return {
    process: { selector: { case: 'pid', value: pid } },
    input: { input: { case: kind, value: Buffer.from(text, 'base64') } },
  };
}

/** The name and the value of the field of an object that has one. */
function onlyField(value: unknown): [name?: string, value?: unknown] {
  const [first, second] = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return first && !second ? first : [];
}
