/** A sandbox of either platform: the peer's or ours. The bench measures these calls. */
export interface MadeSandbox {
  /**
   * Runs a command in a shell.
   * @param onOutput called with the first bytes of its standard output
   */
  run(command: string, onOutput: () => void): Promise<void>;
  /** Resolves when it is gone. */
  remove(): Promise<void>;
}

export interface Contender {
  name: string;
  /** Resolves with the reply of the create. */
  create(): Promise<MadeSandbox>;
  /** Waits until nothing of the last creates and removals goes on. */
  settle(): Promise<void>;
}

/** Milliseconds since the create was asked for. */
export interface Times {
  replied: number;
  output: number;
}

/** Creates a sandbox and runs `echo`. */
export async function firstOutput(contender: Contender): Promise<{ sandbox: MadeSandbox; times: Times }> {
  const startedMs = performance.now();
  const since = () => performance.now() - startedMs;
  const sandbox = await contender.create();
  const replied = since();
  let output = Number.NaN;
  await sandbox.run('echo ready', () => {
    output = since();
  });
  if (Number.isNaN(output)) throw new Error(`${contender.name}: the command had no output`);
  return { sandbox, times: { replied, output } };
}
