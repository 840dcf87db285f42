import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../../support/made-once.ts';

const run = promisify(execFile);
const clients = path.resolve(import.meta.dirname, '../../../clients');

/** What builds the packages of `clients/`, and what the client needs. */
const always = ['setuptools==80.9.0', 'wheel==0.45.1', 'httpx==0.28.1', 'typing_extensions==4.16.0', 'pytest==9.2.0'];

/** A Python environment with published packages, the Python client and one of `clients/integrations/`. */
export class PythonWithAdapter {
  readonly dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-adapter-'));
  readonly #bin: string;

  private constructor(bin: string) {
    this.#bin = bin;
  }

  /**
   * @param adapter a folder of `clients/integrations/`
   * @param packages of PyPI. They are installed once per machine
   */
  static async make(adapter: string, packages: string[], interpreter = 'python3'): Promise<PythonWithAdapter> {
    const all = [...always, ...packages];
    const venv = await madeOnce(`test-python-${adapter}`, [interpreter, ...all], async (folder) => {
      await run(interpreter, ['-m', 'venv', folder]);
      await run(path.join(folder, 'bin/pip'), ['install', '--quiet', ...all], { timeout: 600_000 });
    });
    const made = new PythonWithAdapter(path.join(venv, 'bin'));
    const sources = ['python', `integrations/${adapter}`].map((name) => {
      // A build writes into its source.
      const copy = path.join(made.dir, 'sources', name);
      fs.cpSync(path.join(clients, name), copy, { recursive: true });
      return copy;
    });
    const offline = ['--no-index', '--no-deps', '--no-build-isolation', '--disable-pip-version-check'];
    await made.run('pip', ['install', '--quiet', ...offline, '--target', made.#packages, ...sources]);
    return made;
  }

  get #packages(): string {
    return path.join(this.dir, 'packages');
  }

  /**
   * @param program of the environment, such as `python`
   * @returns its output
   * @throws with its output
   */
  async run(program: string, args: string[], given: NodeJS.ProcessEnv = {}): Promise<string> {
    const env = { ...process.env, ...given, PYTHONPATH: this.#packages, PYTHONDONTWRITEBYTECODE: '1', HOME: this.dir };
    const options = { cwd: this.dir, env, timeout: 240_000 };
    const { stdout } = await run(path.resolve(this.#bin, program), args, options).catch((error) => {
      throw new Error(`${error.message}\n${error.stdout}`);
    });
    return stdout;
  }

  /** Runs a script with the programs of the environment. @returns its output */
  runShell(script: string, given: NodeJS.ProcessEnv): Promise<string> {
    const Path = `${this.#bin}:${process.env.PATH}`;
    return this.run('/bin/bash', ['-euc', script], { ...given, PATH: Path });
  }

  /** @returns the last line of pytest: the numbers of tests by outcome, without the time */
  async runPytest(file: string, given: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
    const options = ['-q', '-W', 'ignore', '--tb=short', '-p', 'no:cacheprovider', ...args];
    const output = await this.run('python', ['-m', 'pytest', ...options, path.join(import.meta.dirname, file)], given);
    return output
      .trim()
      .split('\n')
      .at(-1)!
      .replace(/ in .*/, '');
  }

  remove(): void {
    fs.rmSync(this.dir, { recursive: true, force: true });
  }
}
