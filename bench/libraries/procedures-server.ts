import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createEnvironment } from '../../agent/boot/environment.ts';
import { filesystemServices } from '../../agent/filesystem/service.ts';
import type { RequestListener } from '../../agent/http/request-listener.ts';
import { createSandboxPaths } from '../../agent/http/sandbox-paths.ts';
import { ProcessTable } from '../../agent/process/process-table.ts';
import { processServices } from '../../agent/process/service.ts';
import { createLibraryListener } from '../../agent/rpc/library.ts';
import { procedureTable } from '../../agent/rpc/procedure.ts';

/**
 * `… ours|library`: serves the agent's procedures over Connect, with the agent's own server or with connect-node.
 * Prints its port.
 */
const [, , which] = process.argv;
// The agent looks for its native addon beside its bundle.
process.argv[1] = path.resolve(import.meta.dirname, '../../agent/dist/agent.cjs');
const environment = createEnvironment(() => ({}));
const init = { sandboxId: 'sbx-bench', accessToken: null, env: {}, command: null };
const listener =
  which === 'ours' ? createSandboxPaths({ platformToken: null, env: {}, init }, environment).serve : byLibrary();

function byLibrary(): RequestListener {
  const files = filesystemServices(() => ({ home: environment.home() }));
  const procedures = procedureTable([...files, ...processServices(new ProcessTable(environment))]);
  const listener = createLibraryListener(procedures.values());
  return (req, res) => listener(req, res, procedures.get(req.url!)!);
}

const server = http
  .createServer((req, res) => void listener(req, res))
  .listen(0, '127.0.0.1', () => {
    console.log((server.address() as AddressInfo).port);
  });
