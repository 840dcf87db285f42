import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

/** A client and a server of another sandbox, in their own process. */
export class SecondTenant {
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(): Promise<SecondTenant> {
    const child = fork(path.join(import.meta.dirname, 'programs/second-tenant.ts'), {
      env: { ...process.env, NODE_OPTIONS: '' },
      execArgv: [],
    });
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    return new SecondTenant(child, port);
  }

  async begin(gatewayPort: number): Promise<void> {
    this.#child.send({ gatewayPort });
    await once(this.#child, 'message');
  }

  /** The label of the measurements from now on; null: none are made. */
  label(label: string | null): void {
    this.#child.send({ label });
  }

  async finish(): Promise<Record<'hostile' | 'plain', number[]>> {
    this.#child.send({ finish: true });
    const [samples] = await once(this.#child, 'message');
    return samples as Record<'hostile' | 'plain', number[]>;
  }

  kill(): void {
    if (this.#child.connected) this.#child.disconnect();
    this.#child.kill('SIGKILL');
  }
}
