/** `sbx-1:/a` is in a sandbox. All other paths are on this machine. */
export function parsePlace(word: string): { sandbox: string | null; path: string } {
  const [, sandbox, inside] = /^(sbx-[a-z0-9-]+):([\s\S]*)$/.exec(word) ?? [];
  return sandbox === undefined ? { sandbox: null, path: word } : { sandbox, path: inside! };
}
