/** A JSON body, and its target. */
export interface WorstBody {
  name: string;
  text: string;
}

/** A text of at most `bytes` that repeats `item` as often as possible, separated by commas. */
const many = (bytes: number, item: string) =>
  Array(Math.max(1, Math.floor(bytes / (item.length + 1))))
    .fill(item)
    .join(',');
const times = (bytes: number, item: string) => item.repeat(Math.max(1, Math.floor(bytes / item.length)));
/** The bytes of braces, names and quotes around the repeated part. */
const frameBytes = 64;

/** Valid JSON of at most `bytes` that attacks parsers, bounds, validation and error replies. */
export function worstBodies(bytes: number): WorstBody[] {
  const inner = bytes - frameBytes;
  const wrongItems = `{"object_storage":[${many(Math.min(inner, 2700), '{}')}]}`;
  const payloads = `"payloads":[${many(Math.min(inner, 18_000), '{}')}]`;
  const fill = (text: string) => `{"x":"${'x'.repeat(Math.max(0, bytes - text.length - 10))}",${text.slice(1)}`;
  return [
    { name: 'brackets', text: '['.repeat(bytes / 2) + ']'.repeat(bytes / 2) },
    { name: 'empty objects', text: `[${many(inner, '{}')}]` },
    { name: 'one key again and again', text: `{${many(inner, '"name":"x"')}}` },
    { name: 'NULs', text: `{"metadata":["${times(inner, '\\u0000')}"]}` },
    { name: 'quotes', text: `{"description":"${times(inner, '\\"')}"}` },
    { name: 'digits', text: `{"cpu_count":${times(inner, '9')}}` },
    { name: 'as many wrong items as pass', text: fill(wrongItems) },
    { name: 'a key of the size', text: `{"${'k'.repeat(inner)}":["\\u0000"]}` },
    { name: 'many payloads', text: fill(`{${payloads}}`) },
    {
      name: 'a payload of base64',
      text: `{"payloads":[{"metadata":{"encoding":"eA=="},"data":"${times(inner, 'AAAA')}"}]}`,
    },
  ];
}

/** A body of about `bytes` that no route refuses for its format, because unknown fields are ignored. */
export function ordinaryBody(bytes: number): string {
  return JSON.stringify({ template: 'none', ignored: Array(10).fill('i'.repeat(Math.max(0, bytes - 80) / 10)) });
}
