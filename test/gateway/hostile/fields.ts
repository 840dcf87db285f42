import http2 from 'node:http2';
import type { SeededRandom } from './random.ts';

/** Every field that Node knows by name, including all that it sends only once or never. */
export const knownNames = Object.entries(http2.constants)
  .filter(([constant, name]) => constant.startsWith('HTTP2_HEADER_') && !String(name).startsWith(':'))
  .map(([, name]) => name as string);

const oddNames = ['x-a', 'X_B', 'a b', '', ':status', ':path', 'x\0y', 'x\ry', 'ümlaut', '__proto__', 'constructor'];
const values = ['', 'a', ' a\t', 'trailers', 'a, b', '\xff\x80', '-1', 'gzip', 'close', '0', 'h2c', 'chunked'];
const invalidValues = ['\x00', 'a\x01b', '\x7f', 'a\nb', 'a\rb', '\u{1f4a9}'];

/** One field as a sandbox may send it, valid or not. */
function hostileField(random: SeededRandom): [string, string] {
  const name = random.chance(0.96) ? random.pick(knownNames) : random.pick(oddNames);
  if (random.chance(0.02)) return [name, 'v'.repeat(random.pick([5000, 30_000, 70_000]))];
  const value = random.chance(0.6) ? String(random.below(1000)) : anyValue(random);
  return [random.chance(0.2) ? name.toUpperCase() : name, value];
}

/** Fields, many of them doubled. */
export function hostileFields(random: SeededRandom, most = 6): [string, string][] {
  const fields: [string, string][] = [];
  if (random.chance(0.01)) for (let i = random.below(6000); i > 0; i--) fields.push([random.pick(['a', 'age']), '']);
  for (let i = random.below(most); i > 0; i--) {
    const field = hostileField(random);
    fields.push(field);
    if (random.chance(0.4)) fields.push([field[0], anyValue(random)]);
  }
  return fields;
}

function anyValue(random: SeededRandom): string {
  return random.pick(random.chance(0.96) ? values : invalidValues);
}
