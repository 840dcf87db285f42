import { execFileSync } from 'node:child_process';
import path from 'node:path';

/** Makes `gen/` from `sandboxagent.proto` with this project's buf and protoc-gen-es. Needs no network. */
const here = import.meta.dirname;
const bin = path.resolve(here, '../../node_modules/.bin');
execFileSync(path.join(bin, 'buf'), ['generate'], {
  cwd: here,
  stdio: 'inherit',
  env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
});
