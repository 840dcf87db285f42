import type { ParseArgsOptionsConfig } from 'node:util';
import type { ConnectionOptions } from '../connection-options.ts';
import { SandboxError } from '../errors.ts';
import { printable, printableLine, printableOutput } from '../printable.ts';
import { Sandbox } from '../sandbox.ts';

/** The input of a command. */
export interface Invocation {
  /** The arguments after the command's name, without options. */
  words: string[];
  /** The arguments after `--`. */
  rest: string[];
  options: Record<string, string | boolean | (string | boolean)[] | undefined>;
  connection: ConnectionOptions;
  /** Print JSON for programs. */
  json: boolean;
}

/** One command of the command line. */
export interface CliCommand {
  name: string;
  /** The part after its name in the help. */
  usage: string;
  summary: string;
  options?: ParseArgsOptionsConfig;
  /** The maximum number of words before `--`, without options. */
  maxWords: number;
  /** The first words, if they are fixed. */
  words?: string[];
  /** Returns the exit status. */
  run(invocation: Invocation): Promise<number>;
}

/** The arguments of the command are wrong. Exit status 2. */
export class UsageError extends Error {}

export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Prints output of a program in the sandbox: unchanged to a file or a program, printable to a terminal. */
export function printOutput(to: 'stdout' | 'stderr'): (text: string) => void {
  const stream = process[to];
  return (text) => void stream.write(stream.isTTY ? printableOutput(text) : text);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** The sandbox of the first argument, in its current state. */
export async function getSandbox({ words, connection }: Invocation): Promise<Sandbox> {
  const [id] = words;
  if (!id) throw new UsageError('Name a sandbox');
  return Sandbox.get(id, connection);
}

/** Converts `['A=1', 'B=2']` to an object. */
export function parsePairs(values: Invocation['options'][string]): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (const value of [values ?? []].flat()) {
    const [, name, text] = /^([^=]+)=([\s\S]*)$/.exec(String(value)) ?? [];
    if (name === undefined) throw new UsageError(`${value} is not NAME=VALUE`);
    pairs[name] = text!;
  }
  return pairs;
}

/** @throws {UsageError} when it is not a whole number */
export function parseNumber(value: Invocation['options'][string], name: string): number | undefined {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!Number.isInteger(number)) throw new UsageError(`${name} is a whole number, not ${value}`);
  return number;
}

/** Formats rows as columns. */
export function table(cells: string[][]): string {
  const rows = cells.map((row) => row.map(printableLine));
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The command that helps after an error of the platform. */
function adviceFor({ code, status }: SandboxError, id = 'SANDBOX'): string | undefined {
  if (code === 'not_configured' || code === 'unauthenticated') return 'sandbox-platform login';
  if (code === 'sandbox_not_running') return `sandbox-platform resume ${id}, if it is paused`;
  if (code === 'template_not_found') return 'sandbox-platform template ls';
  if (code === 'concurrent_limit_reached') return 'sandbox-platform ls, then kill or pause one';
  if (code === 'not_found' && status === 404) return 'sandbox-platform ls --all';
  if (code === 'connection_failed') return 'npm start in the folder of the platform, or give its address with --url';
  return undefined;
}

/** Formats an error for the output. @param words the arguments of the command that failed */
export function describeError(error: unknown, json: boolean, words: string[] = []): string {
  const { message } = error as Error;
  if (!(error instanceof SandboxError)) {
    return printable(json ? JSON.stringify({ error: message }) : `sandbox-platform: ${message}`);
  }
  const { code, requestId } = error;
  if (json) return printable(JSON.stringify({ error: message, code, ...(requestId && { request_id: requestId }) }));
  const id = words.find((word) => word.startsWith('sbx-'));
  const advice = adviceFor(error, id?.replace(/:.*/s, ''));
  // People name commands, and not requests.
  const text = message
    .replace(/ \(HTTP \d+\)$/, '')
    .replace(/[;,.] [^;.]*\b(GET|POST|PUT|DELETE) \/v1\/[^;. ]*[^;.]*/g, '');
  return printable(`sandbox-platform: ${text} [${code}]${advice ? `\nTry: ${advice}` : ''}`);
}
