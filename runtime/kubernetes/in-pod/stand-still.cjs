// Usage: stand-still.cjs <seconds>. Stops all processes of a sandbox except its first one, and then writes `still`.
// Lets them continue when something arrives on standard input, when standard input ends, or after the seconds. So they
// also continue when the caller is gone.
const fs = require('node:fs');

const [seconds] = process.argv.slice(2);
const stopWithinMs = 5000;
const exitCodes = { asked: 0, late: 4, failed: 5 };
const stopped = new Set();

const timer = setTimeout(() => goOn(exitCodes.late), Number(seconds) * 1000);
process.stdin.on('data', () => goOn(exitCodes.asked));
process.stdin.on('end', () => goOn(exitCodes.asked));
process.stdin.on('error', () => goOn(exitCodes.asked));
stopAll(performance.now() + stopWithinMs);

/**
 * Stops processes until two scans one after the other find none that runs, because a new process may start during a
 * scan.
 */
function stopAll(endMs, quiet = 0) {
  if (quiet === 2) return process.stdout.write('still\n');
  if (performance.now() > endMs) return goOn(exitCodes.failed);
  const running = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== '1' && isRunning(name));
  for (const pid of running) if (signal(pid, 'SIGSTOP')) stopped.add(pid);
  setTimeout(() => stopAll(endMs, running.length === 0 ? quiet + 1 : 0), running.length === 0 ? 0 : 1);
}

/** A process that has ended, or that the sandbox itself has stopped, does not run. */
function isRunning(pid) {
  if (Number(pid) === process.pid) return false;
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !['T', 't', 'Z', 'X'].includes(text.slice(text.lastIndexOf(')') + 2)[0]);
  } catch {
    // The process has ended.
    return false;
  }
}

function signal(pid, name) {
  try {
    return process.kill(Number(pid), name);
  } catch {
    return false;
  }
}

/** Lets the processes continue: children first, so that no parent notices a stopped child. */
function goOn(code) {
  clearTimeout(timer);
  for (const pid of [...stopped].sort((a, b) => b - a)) signal(pid, 'SIGCONT');
  process.exit(code);
}
