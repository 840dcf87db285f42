import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { findExecutable } from '../process/find-executable.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import type { Execution, KernelStart } from './kernel.ts';
import { type CurrentExecution, ScriptKernel, startScript } from './script-kernel.ts';

const repeatMs = 100;

/** A bash that keeps its state between runs. `kernels/bash_kernel.bash` maintains it. */
export class BashKernel extends ScriptKernel {
  #text = '';
  /** Whether the code of the current execution has begun. An earlier signal would be lost. */
  #begun = false;

  /** @throws {ConnectError} `failed_precondition` when there is no bash */
  static async start(start: KernelStart): Promise<BashKernel> {
    const bash = findExecutable('bash', start.searchPath);
    if (!bash) throw new ConnectError('bash is not available: install the package bash', Code.FailedPrecondition);
    const { process, pipes } = await startScript([bash, path.join(start.scripts, 'bash_kernel.bash')], start);
    return new BashKernel('bash', process, pipes);
  }

  protected request({ code, envVars }: Execution): Buffer {
    this.#begun = false;
    const { before, after } = environmentCode(envVars);
    // Bash cannot store a NUL.
    const parts = [before, code.replaceAll('\0', ''), after].map((part) => Buffer.from(part));
    return Buffer.concat([Buffer.from(`${parts.map((part) => part.length).join(' ')}\n`), ...parts]);
  }

  /** One signal is not enough: if it arrives while bash starts a command that ignores it, bash continues. */
  protected stop(current: CurrentExecution): void {
    if (this.#begun) this.signalUntilEnded(current, 0, repeatMs);
  }

  protected receive(chunk: Buffer): void {
    const lines = (this.#text + chunk.toString('latin1')).split('\n');
    this.#text = lines.pop()!;
    for (const line of lines) {
      const [word, status] = line.split(' ');
      if (word === 'begun') {
        this.#begun = true;
        if (this.current?.interrupted) this.stop(this.current);
      }
      // If the shell died, the end of the whole kernel reports it.
      else if (word !== 'died') this.current?.finish({ ok: true, exitCode: Number(status), value: {} });
    }
  }

  /** The script exits with its shell's status. A status above 128 means that a signal ended the shell. */
  protected override ending(): string {
    const status = Number(/^exit code (\d+)$/.exec(super.ending())?.[1]);
    if (!(status > 128)) return super.ending();
    return `killed by ${status === 137 ? 'SIGKILL' : `signal ${status - 128}`}`;
  }
}

/**
 * Code that sets variables for one execution and restores them afterwards. The names were checked to be valid in bash.
 */
function environmentCode(envVars: Record<string, string>): { before: string; after: string } {
  const before: string[] = [];
  const after: string[] = [];
  Object.entries(envVars).forEach(([name, value], index) => {
    const saved = `__sandbox_saved_${index}`;
    before.push(`${saved}=(\${${name}+set} "\${${name}-}"); export ${name}=${quote(value)}`);
    after.push(`if ((\${#${saved}[@]} == 2)); then ${name}=\${${saved}[1]}; else unset ${name}; fi; unset ${saved}`);
  });
  return { before: before.join('\n'), after: after.join('\n') };
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
