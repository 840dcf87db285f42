import { type CliCommand, getSandbox, parseNumber, print, printJson, table, UsageError } from './command.ts';

export const info: CliCommand = {
  name: 'info',
  maxWords: 1,
  usage: 'SANDBOX',
  summary: 'show a sandbox',
  async run(invocation) {
    const found = await (await getSandbox(invocation)).info();
    if (invocation.json) printJson(found);
    else {
      const { sandbox_id, name, status, reason, template_name, timeout_at, created_at, uptime, resources } = found;
      const rows = { sandbox_id, name, status, reason, template_name, created_at, timeout_at, uptime, ...resources };
      print(table(Object.entries(rows).map(([field, value]) => [field, String(value ?? '')])));
    }
    return 0;
  },
};

export const timeout: CliCommand = {
  name: 'timeout',
  maxWords: 2,
  usage: 'SANDBOX SECONDS',
  summary: 'set the time, counted from the start of the running phase, after which a sandbox ends or pauses',
  async run(invocation) {
    const sandbox = await getSandbox(invocation);
    const seconds = parseNumber(invocation.words[1], 'SECONDS');
    if (seconds === undefined) throw new UsageError('Give a number of seconds');
    await sandbox.setTimeout(seconds);
    const { sandbox_id, timeout_at } = await sandbox.info();
    if (invocation.json) printJson({ sandbox_id, timeout_at });
    else print(`${timeout_at}`);
    return 0;
  },
};

export const metrics: CliCommand = {
  name: 'metrics',
  maxWords: 1,
  usage: 'SANDBOX [--minutes N] [--step SECONDS]',
  summary: 'show the use of processors, memory and disk, in the last 5 minutes',
  options: { minutes: { type: 'string' }, step: { type: 'string' } },
  async run(invocation) {
    const { options, json } = invocation;
    const sandbox = await getSandbox(invocation);
    const minutes = parseNumber(options.minutes, '--minutes') ?? 5;
    const stepSeconds = parseNumber(options.step, '--step');
    const start = new Date(Date.now() - minutes * 60_000);
    const found = await sandbox.metrics({ start, ...(stepSeconds !== undefined && { stepSeconds }) });
    const mib = (bytes: number) => (bytes / 1024 ** 2).toFixed(0);
    if (json) printJson(found);
    else {
      const rows = found.map((each) => [
        ...[each.timestamp, each.cpu_used_pct.toFixed(1), mib(each.mem_used), mib(each.mem_total)],
        ...[mib(each.disk_used), mib(each.disk_total)],
      ]);
      print(table([['TIME', 'CPU_%', 'MEMORY_MIB', 'OF', 'DISK_MIB', 'OF'], ...rows]));
    }
    return 0;
  },
};
