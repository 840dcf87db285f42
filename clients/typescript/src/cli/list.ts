import type { SandboxSummary } from '../generated/api.ts';
import { Sandbox } from '../sandbox.ts';
import { type CliCommand, parsePairs, print, printJson, table } from './command.ts';

const alive = 'created,starting,running,pausing,paused,resuming';

export const list: CliCommand = {
  name: 'ls',
  maxWords: 0,
  usage: '[--all] [--status S,…] [--metadata K=V]…',
  summary: 'list sandboxes; without --all only those that have not ended',
  options: {
    all: { type: 'boolean', short: 'a' },
    status: { type: 'string' },
    metadata: { type: 'string', multiple: true },
  },
  async run({ options, connection, json }) {
    const status = options.status === undefined ? (options.all ? undefined : alive) : String(options.status);
    const metadata = parsePairs(options.metadata);
    const found: SandboxSummary[] = [];
    const query = { ...(status && { status }), ...(Object.keys(metadata).length > 0 && { metadata }) };
    for await (const sandbox of Sandbox.list({ ...connection, ...query })) found.push(sandbox);
    if (json) printJson(found);
    else {
      const rows = found.map((each) => [each.sandbox_id, each.status, each.template_name, each.name, each.created_at]);
      print(table([['SANDBOX', 'STATUS', 'TEMPLATE', 'NAME', 'CREATED'], ...rows]));
    }
    return 0;
  },
};
