/** After the last test file, failed or not. */
export default async function globalTeardown(): Promise<void> {
  await globalThis.testStack?.stop();
}
