import fs from 'node:fs';

const recheckMs = 1000;

/** Names of users or groups by number, read again when the file has changed. */
class NameTable {
  readonly #file: string;
  #names = new Map<number, string>();
  #checkedAt = 0;
  #version = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** The name of `id`, or the number itself if the file has no name for it. */
  findName(id: number): string {
    const now = Date.now();
    if (now - this.#checkedAt > recheckMs) {
      this.#checkedAt = now;
      this.#refresh();
    }
    return this.#names.get(id) ?? String(id);
  }

  #refresh(): void {
    // An image made from scratch has no such file, so only numbers are known.
    const stat = fs.statSync(this.#file, { throwIfNoEntry: false });
    const version = stat ? `${stat.ino}:${stat.mtimeMs}:${stat.size}` : '';
    if (version === this.#version) return;
    this.#version = version;
    this.#names = new Map();
    if (!stat) return;
    for (const line of fs.readFileSync(this.#file, 'utf8').split('\n')) {
      const [name, , id] = line.split(':');
      if (name && id && !this.#names.has(Number(id))) this.#names.set(Number(id), name);
    }
  }
}

export const users = new NameTable('/etc/passwd');
export const groups = new NameTable('/etc/group');
