import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** How a process ended. */
export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export type Channel = 'stdout' | 'stderr' | 'pty';

/** A started process and the agent's ends of its pipes. */
export interface Launched {
  pid: number;
  stdin: Writable;
  outputs: { channel: Channel; stream: Readable }[];
  /** Resolves once, when the process itself has ended; its pipes may still hold output. */
  exited: Promise<ProcessExit>;
  resize?: (columns: number, rows: number) => void;
}

export interface LaunchRequest {
  file: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
}

/** Starts a program with pipes, as the leader of its own session and group. Rejects with the errno of exec(2). */
export function launchWithPipes({ file, args, env, cwd }: LaunchRequest): Promise<Launched> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { cwd, env, stdio: 'pipe', detached: true });
    const exited = new Promise<ProcessExit>((ended) => child.once('exit', (code, signal) => ended({ code, signal })));
    child.once('error', reject);
    child.once('spawn', () =>
      resolve({
        pid: child.pid!,
        stdin: child.stdin,
        outputs: [
          { channel: 'stdout', stream: child.stdout },
          { channel: 'stderr', stream: child.stderr },
        ],
        exited,
      }),
    );
  });
}
