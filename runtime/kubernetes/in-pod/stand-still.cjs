// Stops all processes of a sandbox but its first one. stand-still.cjs <seconds>
// Writes `still` once they stand still. They go on when something arrives on standard input, when that ends, or after the
// seconds, so also when the process that asked for it is gone.
const fs = require('node:fs');

const [seconds] = process.argv.slice(2);
const stopWithinMs = 5000;
const exitCodes = { asked: 0, late: 4, failed: 5 };
/** The first to be stopped is the first. */
const stopped = new Set();

const timer = setTimeout(() => goOn(exitCodes.late), Number(seconds) * 1000);
process.stdin.on('data', () => goOn(exitCodes.asked));
process.stdin.on('end', () => goOn(exitCodes.asked));
process.stdin.on('error', () => goOn(exitCodes.asked));
stopAll(performance.now() + stopWithinMs);

/** Looks until two looks in turn find none that runs: a process may begin while the others are looked at. */
function stopAll(endMs, quiet = 0) {
  if (quiet === 2) return process.stdout.write('still\n');
  if (performance.now() > endMs) return goOn(exitCodes.failed);
  const running = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== '1' && isRunning(name));
  for (const pid of running) if (signal(pid, 'SIGSTOP')) stopped.add(pid);
  setTimeout(() => stopAll(endMs, running.length === 0 ? quiet + 1 : 0), running.length === 0 ? 0 : 1);
}

/** One that its owner has stopped, or that has ended, does not run. */
function isRunning(pid) {
  if (Number(pid) === process.pid) return false;
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !['T', 't', 'Z', 'X'].includes(text.slice(text.lastIndexOf(')') + 2)[0]);
  } catch {
    // It has ended.
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

/** Children before their parents, which would otherwise see them stopped. */
function goOn(code) {
  clearTimeout(timer);
  for (const pid of [...stopped].sort((a, b) => b - a)) signal(pid, 'SIGCONT');
  process.exit(code);
}
