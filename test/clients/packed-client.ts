import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { releaseVersion } from '../../platform/config/release.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');

/** An empty project with the TypeScript client, installed from its packed archive without a network. */
export class ProjectWithClient {
  readonly dir: string;

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async make(): Promise<ProjectWithClient> {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-client-'));
    const project = path.join(dir, 'project');
    fs.mkdirSync(project);
    fs.writeFileSync(path.join(project, 'package.json'), '{"name": "empty", "private": true, "type": "module"}');
    await installPackage(project, `sandbox-platform-client-${releaseVersion}.tgz`);
    return new ProjectWithClient(project);
  }

  /** Checks the types of programs, then runs all of them concurrently. @returns their outputs */
  async run(programs: string[], env: NodeJS.ProcessEnv): Promise<string[]> {
    const files = await this.check(programs);
    return Promise.all(files.map((file) => this.runFile(file, env)));
  }

  /** Checks the types of programs. @returns their files in the project */
  async check(programs: string[]): Promise<string[]> {
    const files = programs.map((_, index) => `program-${index}.ts`);
    for (const [index, source] of programs.entries()) fs.writeFileSync(path.join(this.dir, files[index]!), source);
    const language = ['--strict', '--target', 'es2022', '--lib', 'es2023,esnext.disposable', '--module', 'nodenext'];
    await compile(this.dir, '--noEmit', ...language, '--types', 'node', '--skipLibCheck', ...files);
    return files;
  }

  async runFile(file: string, env: NodeJS.ProcessEnv): Promise<string> {
    const options = { cwd: this.dir, env: { ...process.env, NODE_OPTIONS: '', ...env }, timeout: 100_000 };
    return (await run(process.execPath, [file], options)).stdout;
  }

  remove(): void {
    fs.rmSync(path.dirname(this.dir), { recursive: true, force: true });
  }
}

/** Installs a package that set-up has built, without a network. */
export async function installPackage(project: string, archive: string): Promise<void> {
  const quietly = ['--offline', '--no-audit', '--no-fund', '--loglevel=error'];
  await run('npm', ['install', ...quietly, path.join(root, 'clients/dist', archive)], { cwd: project });
}

/** @throws the compiler's output */
async function compile(cwd: string, ...args: string[]): Promise<void> {
  const types = ['--typeRoots', path.join(root, 'node_modules/@types')];
  await run(path.join(root, 'node_modules/.bin/tsc'), [...args, ...types], { cwd }).catch((error) => {
    throw new Error(`The types are wrong:\n${error.stdout}`);
  });
}

/** The programs of a README, by their headings. */
export function readPrograms(readme: string, language: string): { heading: string; source: string }[] {
  const text = fs.readFileSync(path.join(root, readme), 'utf8');
  const programs: { heading: string; source: string }[] = [];
  let heading = '';
  for (const [, title, fence, source] of text.matchAll(/^## (.+)$|^```(\w+)\n([\s\S]*?)^```$/gm)) {
    if (title) heading = title;
    else if (fence === language) programs.push({ heading, source: source! });
  }
  return programs;
}
