import { Platform } from '../platform.ts';
import { type CliCommand, parseNumber, print, printJson, table } from './command.ts';

export const usage: CliCommand = {
  name: 'usage',
  maxWords: 0,
  usage: '[--days N] [--by project_id|user_id|metadata.KEY]',
  summary: 'what was used in the last 30 days, and its cost',
  options: { days: { type: 'string' }, by: { type: 'string' } },
  async run({ options, connection, json }) {
    const days = parseNumber(options.days, '--days') ?? 30;
    const found = await new Platform(connection).usage.summary({
      start: new Date(Date.now() - days * 86_400_000),
      ...(options.by !== undefined && { groupBy: String(options.by) }),
    });
    if (json) {
      printJson(found);
      return 0;
    }
    const { summary, groups } = found;
    const rows = [{ ...summary, value: 'all' }, ...(groups ?? [])].map((each) => [
      ...[each.value ?? '', each.total_cpu_hours.toFixed(2), each.total_memory_gb_hours.toFixed(2)],
      ...[each.total_storage_gb_hours.toFixed(2), each.total_traffic_gb.toFixed(2)],
      `${each.total_cost.toFixed(2)} ${summary.currency}`,
    ]);
    print(table([['WHAT', 'CPU_HOURS', 'MEMORY_GB_HOURS', 'STORAGE_GB_HOURS', 'TRAFFIC_GB', 'COST'], ...rows]));
    return 0;
  },
};
