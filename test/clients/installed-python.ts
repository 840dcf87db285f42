import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../support/made-once.ts';

const run = promisify(execFile);
const source = path.resolve(import.meta.dirname, '../../clients/python');

/**
 * The builder of the wheel and its dependencies, as wheels in a folder, so that the client is installed without a
 * network.
 */
const builder = ['setuptools==80.9.0', 'wheel==0.45.1'];
const needed = ['httpx==0.28.1', 'typing_extensions==4.15.0', 'cryptography==50.0.2'];

/** A separate Python environment with the client, which is built as a wheel and installed without a network. */
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
    const tools = await madeOnce('test-python-client', [...builder, ...needed], async (made) => {
      await run('python3', ['-m', 'venv', made]);
      const pip = path.join(made, 'bin/pip');
      await run(pip, ['install', '--quiet', ...builder]);
      await run(pip, ['download', '--quiet', '--dest', path.join(made, 'wheels'), ...needed]);
    });
    const pip = (...args: string[]) =>
      run(path.join(tools, 'bin/pip'), ['--quiet', '--disable-pip-version-check', ...args]);
    fs.cpSync(source, path.join(this.dir, 'source'), { recursive: true });
    await pip(
      'wheel',
      '--no-build-isolation',
      '--no-deps',
      '--no-index',
      '--wheel-dir',
      this.dir,
      path.join(this.dir, 'source'),
    );
    await run(path.join(tools, 'bin/python'), ['-m', 'venv', '--without-pip', path.join(this.dir, 'venv')]);
    const [wheel] = fs.readdirSync(this.dir).filter((name) => name.endsWith('.whl'));
    await pip(
      ...['--python', this.#python, 'install', '--no-index', '--find-links', path.join(tools, 'wheels')],
      `${path.join(this.dir, wheel!)}[webhooks]`,
    );
  }
}
