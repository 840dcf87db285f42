/** Resolves at the first SIGTERM or SIGINT. A second signal ends the process at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      process.on(name, () => {
        if (isStopping) process.exit(1);
        isStopping = true;
        resolve(name);
      });
    }
  });
}
