import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../../support/made-once.ts';
import { ProjectWithClient } from '../packed-client.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/**
 * A project with the client, an adapter of `clients/integrations` as its package has it, and the published packages that
 * the adapter names in `devDependencies`. Those are installed once per machine.
 */
export async function projectWithAdapter(name: string): Promise<ProjectWithClient> {
  const source = path.join(root, 'clients/integrations', name);
  const manifest = JSON.parse(fs.readFileSync(path.join(source, 'package.json'), 'utf8'));
  const wanted = Object.entries(manifest.devDependencies).map(([each, version]) => `${each}@${version}`);
  const [project, published] = await Promise.all([
    ProjectWithClient.make(),
    madeOnce(`test-adapter-${name}`, wanted, async (folder) => {
      fs.writeFileSync(path.join(folder, 'package.json'), '{"name": "published", "private": true}');
      await run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', ...wanted], { cwd: folder });
    }),
  ]);
  const modules = path.join(project.dir, 'node_modules');
  for (const each of fs.readdirSync(path.join(published, 'node_modules')).filter((entry) => !entry.startsWith('.')))
    fs.symlinkSync(path.join(published, 'node_modules', each), path.join(modules, each));
  const built = path.join(project.dir, 'adapter');
  fs.cpSync(source, built, { recursive: true });
  await run(process.execPath, [path.join(modules, 'typescript/bin/tsc'), '--project', built]).catch((error) => {
    throw new Error(`The adapter does not compile:\n${error.stdout}`);
  });
  fs.renameSync(built, path.join(modules, manifest.name));
  return project;
}
