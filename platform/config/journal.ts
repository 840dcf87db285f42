import fs from 'node:fs';

/** The priorities of syslog(3), by the levels of pino. Levels in between do not exist. */
const priorities = new Map([
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
]);
const plainPriority = 6;
const debugPriority = 7;

/** Whether this process's standard output is systemd's journal, as systemd says in `JOURNAL_STREAM`: systemd.exec(5). */
export function writesToJournal(): boolean {
  const { JOURNAL_STREAM: journal } = process.env;
  if (!journal) return false;
  const { dev, ino } = fs.fstatSync(1, { bigint: true });
  return journal === `${dev}:${ino}`;
}

/**
 * A line for the journal, which itself shows the time, the machine and the process. The line of a pino log becomes its
 * message, followed by the other fields as JSON, with its priority before it: sd-daemon(3).
 * @param line without a line break at its end
 * @param program comes first; for a log of several programs
 */
export function journalLine(line: string, program?: string): string {
  const { priority, text } = readPinoLine(line) ?? { priority: plainPriority, text: line };
  return `<${priority}>${program ? `${program}: ` : ''}${text}\n`;
}

function readPinoLine(line: string): { priority: number; text: string } | null {
  if (!line.startsWith('{')) return null;
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  const { level, time: _time, pid: _pid, hostname: _hostname, name: _name, msg, ...fields } = entry as PinoEntry;
  if (typeof level !== 'number') return null;
  const rest = Object.keys(fields).length > 0 ? JSON.stringify(fields) : '';
  return { priority: priorities.get(level) ?? debugPriority, text: [msg, rest].filter(Boolean).join(' ') };
}

interface PinoEntry {
  level?: unknown;
  time?: unknown;
  pid?: unknown;
  hostname?: unknown;
  name?: unknown;
  msg?: unknown;
}
