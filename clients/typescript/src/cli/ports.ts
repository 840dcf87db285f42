import { type CliCommand, getSandbox, parseNumber, print, printJson, table, UsageError } from './command.ts';

export const ports: CliCommand = {
  name: 'ports',
  maxWords: 1,
  usage: 'SANDBOX [--add PORT [--name N] [--protected]] [--remove PORT]',
  summary: 'list the open ports with their URLs; open or close a port',
  options: {
    add: { type: 'string' },
    remove: { type: 'string' },
    name: { type: 'string' },
    protected: { type: 'boolean' },
  },
  async run(invocation) {
    const { options, json } = invocation;
    const sandbox = await getSandbox(invocation);
    const added = parseNumber(options.add, '--add');
    const removed = parseNumber(options.remove, '--remove');
    if (added !== undefined && removed !== undefined) throw new UsageError('Either --add or --remove');
    if (added !== undefined) {
      const name = String(options.name ?? `port-${added}`);
      await sandbox.ports.add({ port: added, name, is_protected: options.protected === true });
    }
    if (removed !== undefined) await sandbox.ports.remove(removed);
    const { ports: open } = await sandbox.ports.list();
    const found = open.map((port) => ({ ...port, url: port.host_port ?? sandbox.ports.url(port.port) }));
    if (json) printJson(found);
    else {
      const rows = found.map((each) => [
        ...[`${each.port}`, each.protocol, each.name, each.is_protected ? 'token' : 'public', each.url],
      ]);
      print(table([['PORT', 'PROTOCOL', 'NAME', 'ACCESS', 'URL'], ...rows]));
    }
    return 0;
  },
};
