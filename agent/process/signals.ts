import { constants } from 'node:os';

const descriptions: Partial<Record<string, string>> = {
  SIGHUP: 'hangup',
  SIGINT: 'interrupt',
  SIGQUIT: 'quit',
  SIGILL: 'illegal instruction',
  SIGABRT: 'aborted',
  SIGBUS: 'bus error',
  SIGFPE: 'floating point exception',
  SIGKILL: 'killed',
  SIGSEGV: 'segmentation fault',
  SIGPIPE: 'broken pipe',
  SIGALRM: 'alarm clock',
  SIGTERM: 'terminated',
};

const highestSignal = 64;

/** The status text of a process that a signal ended, such as `signal: killed`. */
export function signalText(signal: number): string {
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0];
  return `signal: ${(name && descriptions[name]) ?? name ?? signal}`;
}

/** Whether the number is a signal's number. */
export function isSignal(number: number): boolean {
  return Number.isInteger(number) && number > 0 && number <= highestSignal;
}
