import { Sandbox } from '../sandbox.ts';
import { type CliCommand, parseNumber, parsePairs, print, printJson } from './command.ts';

export const create: CliCommand = {
  name: 'create',
  maxWords: 0,
  usage:
    '[--template T] [--name N] [--timeout SECONDS] [--auto-pause] [--env A=B]… [--metadata K=V]… ' +
    '[--cpu N] [--memory MB] [--storage GB] [--no-internet]',
  summary: 'create a sandbox and print its id',
  options: {
    template: { type: 'string', short: 't' },
    name: { type: 'string' },
    timeout: { type: 'string' },
    env: { type: 'string', short: 'e', multiple: true },
    metadata: { type: 'string', multiple: true },
    cpu: { type: 'string' },
    memory: { type: 'string' },
    storage: { type: 'string' },
    'auto-pause': { type: 'boolean' },
    'no-internet': { type: 'boolean' },
  },
  async run({ options, connection, json }) {
    const timeoutSeconds = parseNumber(options.timeout, '--timeout');
    const cpuCount = parseNumber(options.cpu, '--cpu');
    const memoryMb = parseNumber(options.memory, '--memory');
    const storageGb = parseNumber(options.storage, '--storage');
    const sandbox = await Sandbox.create({
      ...connection,
      ...(options.template !== undefined && { template: String(options.template) }),
      ...(options.name !== undefined && { name: String(options.name) }),
      ...(timeoutSeconds !== undefined && { timeoutSeconds }),
      ...(cpuCount !== undefined && { cpuCount }),
      ...(memoryMb !== undefined && { memoryMb }),
      ...(storageGb !== undefined && { storageGb }),
      envs: parsePairs(options.env),
      metadata: parsePairs(options.metadata),
      autoPause: options['auto-pause'] === true,
      allowInternetAccess: options['no-internet'] !== true,
    });
    if (json) printJson(await sandbox.info());
    else print(sandbox.id);
    return 0;
  },
};
