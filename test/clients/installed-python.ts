import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { releaseVersion } from '../../platform/config/release.ts';
import { madeOnce } from '../support/made-once.ts';

const run = promisify(execFile);
const wheel = path.resolve(
  import.meta.dirname,
  `../../clients/dist/sandbox_platform_client-${releaseVersion}-py3-none-any.whl`,
);

/** What the client needs, as wheels in a folder, so that it is installed without a network. */
const needed = ['httpx==0.28.1', 'typing_extensions==4.15.0', 'cryptography==50.0.2'];

/** A separate Python environment with the client, installed without a network from the wheel that set-up has built. */
export class PythonWithClient {
  readonly dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-python-'));
  readonly #python = path.join(this.dir, 'venv/bin/python');

  static async make(): Promise<PythonWithClient> {
    const made = new PythonWithClient();
    await made.#install();
    return made;
  }

  /** @returns the program's output */
  async run(args: string[], given: NodeJS.ProcessEnv): Promise<string> {
    const env = { ...process.env, ...given, PYTHONPATH: '', PYTHONDONTWRITEBYTECODE: '1' };
    const { stdout } = await run(this.#python, args, { cwd: this.dir, env, timeout: 100_000 });
    return stdout;
  }

  remove(): void {
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  async #install(): Promise<void> {
    const wheels = await neededWheels();
    await run('python3', ['-m', 'venv', '--without-pip', path.join(this.dir, 'venv')]);
    await run(path.join(path.dirname(wheels), 'bin/pip'), [
      ...['--quiet', '--disable-pip-version-check', '--python', this.#python, 'install', '--no-index'],
      ...['--find-links', wheels, `${wheel}[webhooks]`],
    ]);
  }
}

/** The folder of the wheels that the client needs. Beside it is an environment with pip. */
export async function neededWheels(): Promise<string> {
  const tools = await madeOnce('test-python-client', needed, async (made) => {
    await run('python3', ['-m', 'venv', made]);
    await run(path.join(made, 'bin/pip'), ['download', '--quiet', '--dest', path.join(made, 'wheels'), ...needed]);
  });
  return path.join(tools, 'wheels');
}
