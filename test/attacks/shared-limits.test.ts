import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { LocalHost, shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';

/** Resources that the kernel counts per user or for all: a sandbox that uses them up only affects itself. */
let host: LocalHost;
let spec: SandboxSpec;
let neighbourPlace: SandboxPlace;

beforeAll(async () => {
  host = await LocalHost.open();
  spec = host.spec();
  neighbourPlace = await host.driver.create(spec);
}, 300_000);

afterAll(() => host.closeEmpty());

const python = (code: string) => `python3 -c '${code}'`;

/** Each one takes as much as possible of a resource, reports the amount, and holds it. */
const hoards: Record<string, string> = {
  'inotify instances': 'while libc.inotify_init() >= 0: n += 1',
  'message queues': 'while libc.mq_open(b"/q%d" % n, 0o102, 0o600, None) >= 0: n += 1',
  'pending signals': `import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
while n < 200000 and libc.sigqueue(os.getpid(), 40, 1) == 0: n += 1`,
  terminals: `try:
  while True: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); n += 1
except OSError: pass`,
  'pages of pipes': `import fcntl
try:
  while n < 2000: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20); n += 1
except OSError: pass`,
  'watched files': `watcher = libc.inotify_init()
os.makedirs("/dev/shm/watched", exist_ok=True)
while n < 5000:
  open("/dev/shm/watched/%d" % n, "w").close()
  if libc.inotify_add_watch(watcher, b"/dev/shm/watched/%d" % n, 2) < 0: break
  n += 1`,
  'epoll entries': `import select, socket
poll, pair = select.epoll(), socket.socketpair()
try:
  while n < 15000: poll.register(os.dup(pair[0].fileno()), select.EPOLLIN); n += 1
except OSError: pass`,
  'locks of files': `import fcntl
file = open("/dev/shm/locks", "w+")
try:
  while n < 3000: fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * n); n += 1
except OSError: pass`,
};
const hoard = (code: string, then: string) =>
  python(`import ctypes, os, time
libc = ctypes.CDLL(None)
n = 0
${code}
open("/dev/shm/hoard", "w").write(str(n))
${then}`);

test.each(Object.entries(hoards))(
  '%s: a neighbour still gets as many as a sandbox that takes all',
  async (_what, code) => {
    const hoarder = host.spec();
    const place = await host.driver.create(hoarder);
    await shell(
      place,
      hoarder,
      `ulimit -n $(ulimit -Hn); setsid ${hoard(code, 'time.sleep(1000)')} >/dev/null 2>&1 </dev/null &`,
    );
    const held = async () => Number((await shell(place, hoarder, 'cat /dev/shm/hoard 2>/dev/null')).output);
    await until(async () => (await held()) > 0);
    const script = `ulimit -n $(ulimit -Hn); ${hoard(code, '')}; cat /dev/shm/hoard`;
    const mine = Number((await shell(neighbourPlace, spec, script)).output);
    expect(mine).toBeGreaterThanOrEqual(0.9 * (await held()));
    await host.driver.remove(hoarder.sandboxId);
  },
);
