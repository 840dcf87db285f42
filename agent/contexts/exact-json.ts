/** A number of a JSON text that a JavaScript number would change, as its text. Made by V8, which also writes it. */
export interface RawNumber {
  rawJSON: string;
}

/** A proposal in V8 that TypeScript's library does not declare yet (tc39/proposal-json-parse-with-source). */
const exact = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
};

/** JSON.parse that keeps every digit: `JSON.stringify` writes the numbers as they were. */
export function parseExactly(text: string): unknown {
  return exact.parse(text, (_, value, { source }) =>
    typeof value === 'number' && String(value) !== source ? exact.rawJSON(source!) : value,
  );
}

export const isRawNumber: (value: unknown) => value is RawNumber = exact.isRawJSON;
