/** A JSON body, and what it tries. */
export interface WorstBody {
  name: string;
  text: string;
}

const many = (count: number, item: string) =>
  Array(Math.max(1, Math.floor(count)))
    .fill(item)
    .join(',');

/** Bodies of about `bytes` that aim at parsers, bounds, validation and error replies. */
export function worstBodies(bytes: number): WorstBody[] {
  const fill = (text: string) => `{"x":"${'x'.repeat(Math.max(0, bytes - text.length - 10))}",${text.slice(1)}`;
  return [
    { name: 'brackets', text: '['.repeat(bytes) },
    { name: 'empty objects', text: `[${many(bytes / 3, '{}')}]` },
    { name: 'one key again and again', text: `{${many(bytes / 11, '"name":"x"')}}` },
    { name: 'NULs', text: `{"metadata":["${'\\u0000'.repeat(bytes / 6)}"]}` },
    { name: 'quotes', text: `{"description":"${'\\"'.repeat(bytes / 2)}"}` },
    { name: 'digits', text: `{"cpu_count":${'9'.repeat(bytes)}}` },
    { name: 'as many wrong items as pass', text: fill(`{"object_storage":[${many(Math.min(900, bytes / 3), '{}')}]}`) },
    { name: 'a key of the size', text: `{"${'k'.repeat(bytes)}":["\\u0000"]}` },
  ].map(({ name, text }) => ({ name, text: text.slice(0, bytes) }));
}

/** A body of about `bytes` that no route refuses for its form: fields that it does not know are ignored. */
export function ordinaryBody(bytes: number): string {
  return JSON.stringify({ template: 'none', ignored: Array(10).fill('i'.repeat(Math.max(0, bytes - 80) / 10)) });
}
