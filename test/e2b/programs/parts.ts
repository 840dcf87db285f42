/** The outcome of a part of a program: null, or the error. */
export type Outcome = [part: string, error: string | null];

/**
 * Runs the parts of a program side by side and prints their outcomes and the methods that they called as JSON, the last
 * line of the output.
 */
export async function runParts(parts: Record<string, () => Promise<unknown>>, called: () => Iterable<string>) {
  const outcomes = await Promise.all(
    Object.entries(parts).map(async ([name, part]): Promise<Outcome> => {
      try {
        await part();
        return [name, null];
      } catch (error) {
        return [name, error instanceof Error ? `${error.stack}` : String(error)];
      }
    }),
  );
  console.log(JSON.stringify({ outcomes, called: [...called()].sort() }));
}

/** Polls until a condition is true. */
export async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`After a minute it is not so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
