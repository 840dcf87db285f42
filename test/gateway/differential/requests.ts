import type { SeededRandom } from '../hostile/random.ts';
import { fieldNames, fieldValues, mutate, writeChunks, writeField } from './responses.ts';

const targets = ['/', '/a?b=c', '/%2e/x', '/a//b', '/~a;b'];
const bodies = ['', 'x', 'hello', 'a\r\nb', '0\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n'];

/** The bytes of a request to `host`, mostly with few errors. Each character is a byte. */
export function requestText(random: SeededRandom, host: string): string {
  const body = random.pick(bodies);
  const form = random.below(4);
  const fields = Array.from({ length: random.below(4) }, () =>
    writeField(random, random.pick(fieldNames), random.pick(fieldValues)),
  );
  if (random.chance(0.2))
    fields.push(writeField(random, 'Connection', random.pick(['close', 'keep-alive', 'A', 'x-long-name, a.b'])));
  if (form === 1 || random.chance(0.05)) fields.push(writeField(random, 'Content-Length', String(body.length)));
  if (form >= 2 || random.chance(0.05)) fields.push(writeField(random, 'Transfer-Encoding', 'chunked'));
  fields.splice(random.below(fields.length + 1), 0, `Host: ${host}\r\n`);
  const method = random.pick(['POST', 'POST', 'PUT', 'GET', 'DELETE', 'PATCH', 'OPTIONS']);
  const version = random.pick(['1.1', '1.1', '1.1', '1.1', '1.0']);
  const end = form === 0 ? '' : form === 1 ? body : writeChunks(random, body);
  const text = `${method} ${random.pick(targets)} HTTP/${version}\r\n${fields.join('')}\r\n${end}`;
  return random.chance(0.7) ? mutate(random, text) : text;
}
