/** Looks for secrets in texts, in every way in which they may be written there. */
export class SecretSearch {
  readonly #forms: readonly [what: string, forms: readonly string[]][];

  /** @param secrets what each is, and what it looks like */
  constructor(secrets: Readonly<Record<string, string>>) {
    this.#forms = Object.entries(secrets).map(([what, secret]) => [what, formsOf(secret)]);
  }

  /** What the text holds. */
  in(text: string): string[] {
    return this.#forms.filter(([, forms]) => forms.some((form) => text.includes(form))).map(([what]) => what);
  }

  /** All there is to look for. */
  get patterns(): string[] {
    return this.#forms.flatMap(([, forms]) => forms);
  }
}

/** As it is, in JSON, in an address, in hexadecimal, and in base64 wherever it begins in what was encoded. */
function formsOf(secret: string): string[] {
  const base64 = [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)]);
    // Characters that depend on what stands before or after are left out.
    const text = bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
    return [text, text.replaceAll('+', '-').replaceAll('/', '_')];
  });
  const hex = Buffer.from(secret).toString('hex');
  return [...new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), hex, ...base64])];
}
