import { closeSync, openSync } from 'node:fs';
import koffi from 'koffi';

const newUts = 0x0400_0000;

interface Libc {
  setns(fd: number, kind: number): number;
  sethostname(name: string, length: number): number;
}

let libc: Libc | undefined;

function loadLibc(): Libc {
  const library = koffi.load(null);
  return {
    setns: library.func('int setns(int, int)') as Libc['setns'],
    sethostname: library.func('int sethostname(const char *, unsigned long)') as Libc['sethostname'],
  };
}

/**
 * Sets the host name that the processes in the UTS namespace of a process see. Only this thread enters the namespace, and
 * it runs nothing else there. A program for this takes 3 ms and more, most of which is the copy of this process.
 * @throws {Error} when the process is gone
 */
export function setHostname(pid: number, name: string): void {
  libc ??= loadLibc();
  const own = openSync('/proc/thread-self/ns/uts', 'r');
  try {
    const other = openSync(`/proc/${pid}/ns/uts`, 'r');
    try {
      if (libc.setns(other, newUts) !== 0) throw failed('setns');
      const isSet = libc.sethostname(name, Buffer.byteLength(name)) === 0;
      const error = isSet ? null : failed('sethostname');
      if (libc.setns(own, newUts) !== 0) throw failed('setns back');
      if (error) throw error;
    } finally {
      closeSync(other);
    }
  } finally {
    closeSync(own);
  }
}

function failed(call: string): Error {
  return new Error(`${call}: error ${koffi.errno()}`);
}
