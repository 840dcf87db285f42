import { constants } from 'node:os';

const descriptions: Partial<Record<NodeJS.Signals, string>> = {
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

export function signalNumber(signal: NodeJS.Signals): number {
  return constants.signals[signal];
}

/** `signal: killed`, the text of an end by a signal. */
export function signalText(signal: NodeJS.Signals): string {
  return `signal: ${descriptions[signal] ?? signal}`;
}

const names = new Map<number, NodeJS.Signals>(
  Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]),
);

/** The signal of that number; undefined for a number that is none. */
export function signalOfNumber(number: number): NodeJS.Signals | undefined {
  return names.get(number);
}
