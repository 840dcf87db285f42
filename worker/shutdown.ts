/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      process.once(name, () => {
        process.once(name, () => process.exit(1));
        resolve(name);
      });
    }
  });
}
