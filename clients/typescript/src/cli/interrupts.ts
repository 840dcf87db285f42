/** After this time, work that waits for a silent peer is ended with the program. */
const cleanUpMs = 2000;

/** Runs work that a Ctrl-C or SIGTERM aborts. Returns null then. */
export async function untilInterrupted<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result | null> {
  const abort = new AbortController();
  const interrupt = () => {
    abort.abort(new Error('interrupted'));
    setTimeout(() => process.exit(130), cleanUpMs).unref();
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    return await work(abort.signal);
  } catch (error) {
    if (!abort.signal.aborted) throw error;
    return null;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}
