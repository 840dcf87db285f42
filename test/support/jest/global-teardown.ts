/** Runs after the last test file, also after failures. */
export default async function globalTeardown(): Promise<void> {
  await globalThis.testStack?.stop();
}
