import type { ParseArgsOptionsConfig } from 'node:util';
import type { AccountId } from '../../../domain/ids.ts';
import type { PlatformDatabase } from './database.ts';

/** A mistake of the operator, reported without a stack. */
export class OperatorError extends Error {
  override name = 'OperatorError';
}

/** The given options of a command. */
export type Values = Record<string, string | boolean | undefined | (string | boolean)[]>;

export interface OperatorCommand {
  usage: string;
  does: string;
  options: ParseArgsOptionsConfig;
  /** @returns the JSON to print */
  run(database: PlatformDatabase, values: Values): Promise<unknown>;
}

/** A command that needs no running platform. */
export type OfflineCommand = Omit<OperatorCommand, 'run'> & { run(values: Values): Promise<unknown> };

export const text = { type: 'string' } as const;
export const flag = { type: 'boolean' } as const;

/** Prints a line for people on standard error. Standard output is only for the command's JSON. */
export function reportProgress(line: string): void {
  process.stderr.write(`${new Date().toTimeString().slice(0, 8)}  ${line}\n`);
}

export function required(values: Values, name: string): string {
  const value = optional(values, name);
  if (!value) throw new OperatorError(`--${name} is missing`);
  return value;
}

/** An id of another format belongs to no account. */
export const requireAccount = (values: Values) => required(values, 'account') as AccountId;

export function optional(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}
