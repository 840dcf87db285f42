/** Searches texts for secrets in all their encodings. */
export class SecretSearch {
  readonly #forms: readonly [what: string, forms: readonly string[]][];

  /** @param secrets by their names */
  constructor(secrets: Readonly<Record<string, string>>) {
    this.#forms = Object.entries(secrets).map(([what, secret]) => [what, listForms(secret)]);
  }

  /** The names of the secrets in the text. */
  in(text: string): string[] {
    return this.#forms.filter(([, forms]) => forms.some((form) => text.includes(form))).map(([what]) => what);
  }

  /** All search patterns. */
  get patterns(): string[] {
    return this.#forms.flatMap(([, forms]) => forms);
  }
}

/** The plain text, and its forms in JSON, in an address, in hexadecimal, and in base64 at each offset. */
function listForms(secret: string): string[] {
  const base64 = [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)]);
    // Characters that depend on the neighbouring bytes are left out.
    const text = bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
    return [text, text.replaceAll('+', '-').replaceAll('/', '_')];
  });
  const hex = Buffer.from(secret).toString('hex');
  return [...new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), hex, ...base64])];
}
