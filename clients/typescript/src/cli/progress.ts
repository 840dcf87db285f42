import type { Progress } from '../archive-writer.ts';

const shownEveryMs = 100;

/** One line about a copy on the terminal of standard error, which is replaced while the copy goes on. */
export class ProgressLine {
  #shownMs = 0;
  #isShown = false;

  show({ files, bytes }: Pick<Progress, 'files' | 'bytes'>): void {
    const nowMs = performance.now();
    if (!process.stderr.isTTY || nowMs - this.#shownMs < shownEveryMs) return;
    this.#shownMs = nowMs;
    this.#isShown = true;
    process.stderr.write(`\r\u001b[K${files} ${files === 1 ? 'file' : 'files'}, ${(bytes / 1e6).toFixed(1)} MB`);
  }

  /** Removes the line. */
  clear(): void {
    if (this.#isShown) process.stderr.write('\r\u001b[K');
    this.#isShown = false;
  }
}
