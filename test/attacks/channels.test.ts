import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { LocalHost, nothing, shell } from '../runtime/local-host.ts';

/** Two sandboxes of one host must not notice each other's actions. */
interface Tenant {
  spec: SandboxSpec;
  place: SandboxPlace;
}
let host: LocalHost;
let listener: Tenant;
let sender: Tenant;

describe.each(['crun', 'runc'] as const)('with %s', (runtime) => {
  beforeAll(async () => {
    host = await LocalHost.open({ runtime });
    const tenant = async () => {
      const spec = host.spec({ memoryMb: 256 });
      return { spec, place: await host.driver.create(spec) };
    };
    [listener, sender] = [await tenant(), await tenant()];
  }, 300_000);

  afterAll(async () => {
    await host.driver.reconcile([]);
    expect(await host.inventory()).toMatchObject(nothing);
    await host.close();
  });

  const run = async ({ place, spec }: Tenant, script: string) => (await shell(place, spec, script, 60)).output;
  const python = (tenant: Tenant, code: string) =>
    run(tenant, `cat >/tmp/code.py <<'END'\n${code}\nEND\npython3 /tmp/code.py`);

  /**
   * Runs a Python program that continues in the background after it has reported that it is ready, until it reports a
   * result.
   */
  async function whileListening(code: string, act: () => Promise<unknown>): Promise<string> {
    await run(
      listener,
      `rm -f /dev/shm/ready /dev/shm/go /dev/shm/heard; cat >/tmp/listen.py <<'END'
import ctypes, fcntl, os, select, struct, sys, time
libc = ctypes.CDLL(None)
def say(text):
  with open("/dev/shm/" + text[0], "w") as file: file.write(text[1])
def wait():
  say(("ready", "yes"))
  while not os.path.exists("/dev/shm/go"): time.sleep(0.02)
${code}
END
setsid python3 /tmp/listen.py >/dev/shm/errors 2>&1 </dev/null &
for i in $(seq 2000); do [ -s /dev/shm/ready ] && break; sleep 0.02; done; cat /dev/shm/errors`,
    );
    await act();
    return run(
      listener,
      'touch /dev/shm/go; for i in $(seq 2000); do [ -s /dev/shm/heard ] && break; sleep 0.02; done; cat /dev/shm/heard /dev/shm/errors',
    );
  }

  /** Files that every sandbox has, and that neither the listener nor its host uses while it listens. */
  const shared =
    '["/dev/full", "/dev/random", "/.platform/bin/catatonit", "/.platform/agent/agent.cjs", "/etc/hostname", "/usr/bin/base64", "/proc/kallsyms", "/proc/cmdline", "/proc/swaps"]';

  test('inotify on a file that both have reveals nothing of the other', async () => {
    const open = `for name in ${shared}:
  with open(name, "rb") as file: file.read(1)`;
    const listen = `watcher = libc.inotify_init()
names = {libc.inotify_add_watch(watcher, name.encode(), 0x20 | 0x1): name for name in ${shared}}
assert -1 not in names and len(names) >= 6, names
def heard():
  found = set()
  while select.select([watcher], [], [], 0)[0]:
    data = os.read(watcher, 65536)
    while data:
      number, _, _, length = struct.unpack_from("iIII", data)
      found.add(names[number]); data = data[16 + length:]
  return len(found)
wait()
of_other = heard()
${open}
say(("heard", "%d %s" % (of_other, heard() >= 6)))`;
    expect(await whileListening(listen, () => python(sender, open))).toBe('0 True');
  });

  test.each([
    ['flock', 'fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)'],
    ['a lock of fcntl', 'fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)'],
    ['a lease', 'fcntl.fcntl(file, 1024, fcntl.F_RDLCK)'],
  ])('%s on a file that both have keeps the other from nothing', async (_what, lock) => {
    const files =
      '["/.platform/bin/node", "/.platform/bin/catatonit", "/usr/bin/base64", "/dev/full", "/proc/kallsyms", "/etc/hosts"]';
    const take = `held = []
def take(name):
  file = open(name, "rb")
  try: ${lock}
  except OSError as error: return "refused" if error.errno == 11 else "not possible"
  held.append(file)
  return "taken"
outcomes = [take(name) for name in ${files}]`;
    const listen = `${take}
wait()
say(("heard", " ".join(outcomes)))`;
    let others = '';
    const mine = await whileListening(listen, async () => {
      others = await python(sender, `import fcntl\n${take}\nprint(" ".join(outcomes))`);
    });
    expect(mine).toContain('taken');
    expect(others).toBe(mine);
  });

  test('no file system of one is mounted in the other, but the control groups of which each sees its own', async () => {
    const mounts = async (tenant: Tenant) =>
      (await run(tenant, 'cat /proc/self/mountinfo')).split('\n').map((line) => {
        const [before, after] = line.split(' - ');
        return { device: before!.split(' ')[2]!, target: before!.split(' ')[4]!, type: after!.split(' ')[0]! };
      });
    const own = new Set((await mounts(listener)).map(({ device }) => device));
    const both = (await mounts(sender)).filter(({ device }) => own.has(device));
    expect(both.filter(({ type }) => !type.startsWith('cgroup'))).toEqual([]);
  });

  test("its mounts name no folder of the host, and their free space is not the host's", async () => {
    const text = await run(listener, 'cat /proc/self/mountinfo /proc/1/mountinfo /proc/mounts');
    for (const word of [host.dataDir, host.options().cacheDir, '/dev/', ' ext4 ', 'devtmpfs']) {
      // The sandbox's own devices are mounted at /dev.
      const found = text.split('\n').filter((line) => line.replaceAll(/ (\/sys)?\/dev[ /]\S*/g, ' ').includes(word));
      expect({ word, found }).toEqual({ word, found: [] });
    }
    const sizes = await run(listener, 'df --output=size,target -BM | tail -n +2');
    // runc reports half of the machine's memory as the size of the folder of control groups. sysinfo(2) returns it,
    // too.
    const ofTheHost = sizes
      .split('\n')
      .filter((line) => Number.parseInt(line, 10) > 1024 && !/ \/sys\/fs\/cgroup$/.test(line));
    expect(ofTheHost).toEqual([]);
  });

  /** Files that change on their own and that no mount can hide from a sandbox: the age and the size of the host. */
  const movesByItself = [
    // Its second number is the idle time of the host's processors. Programs need the first.
    '/proc/uptime',
    // The folders' own link counts: the numbers of the host's processes and network links.
    '/proc',
    '/sys/devices/virtual/net',
    '/proc/sys/kernel/random/uuid',
    '/proc/sys/kernel/ns_last_pid',
    // The listener's own use, as the next test shows.
    '/proc/loadavg',
    '/proc/meminfo',
    '/proc/stat',
  ];

  test('no file of /proc and /sys moves with what the other does', async () => {
    const read = `import os, sys
texts = {}
def look(folder):
  for at, folders, names in os.walk(folder):
    if at == "/proc": folders[:] = [name for name in folders if not name.isdigit() and name not in ("net", "self", "thread-self")]
    if at == "/sys/fs": folders[:] = [name for name in folders if name != "cgroup"]
    if at.startswith("/sys/devices/virtual/net/"): folders[:] = []; continue
    for name in names:
      path = at + "/" + name
      if os.path.islink(path): continue
      try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try: texts[path] = os.read(file, 65536)
        finally: os.close(file)
      except OSError as error: texts[path] = str(error).encode()
    texts[at] = str(os.stat(at).st_nlink).encode()
look("/proc"); look("/sys")
before, texts = texts, {}
open("/dev/shm/ready", "w").write("yes")
while not os.path.exists("/dev/shm/go"): pass
look("/proc"); look("/sys")
open("/dev/shm/heard", "w").write("%d files\\n" % len(before) + "\\n".join(sorted(path for path in {**before, **texts} if before.get(path) != texts.get(path))))`;
    const act = `python3 - <<'END'
import os, socket, hashlib
held = [os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(20)]
held += [os.open("/etc/passwd", os.O_RDONLY) for _ in range(1000)]
held += [socket.socket() for _ in range(200)]
memory = bytearray(os.urandom(1 << 20)) * 60
for number in range(500): open("/root/file-%d" % number, "wb").write(b"x" * 5000)
os.sync()
for _ in range(200): hashlib.sha256(memory[:1 << 20]).digest()
for _ in range(50):
  if os.fork() == 0: os._exit(0)
END
sync`;
    const heard = await whileListening(read, () => run(sender, act));
    const [count, ...moved] = heard.split('\n');
    expect(Number.parseInt(count!, 10)).toBeGreaterThan(300);
    expect(moved.filter((each) => !movesByItself.includes(each))).toEqual([]);
  });

  test('its memory, time and load show nothing of what the other uses', async () => {
    const figures = async () => {
      const text = await run(
        listener,
        `awk '/^MemAvail/{print $2}' /proc/meminfo; awk '/^cpu /{print $2+$4}' /proc/stat; cut -d' ' -f1 /proc/loadavg`,
      );
      const [availableKb, hundredths, load] = text.split('\n').map(Number);
      return { availableKb: availableKb!, hundredths: hundredths!, load: load! };
    };
    const before = await figures();
    await run(sender, `timeout 8 python3 -c 'b = bytearray(120 << 20)\nwhile True: pass' || true; sleep 2`);
    const after = await figures();
    expect(before.availableKb - after.availableKb).toBeLessThan(40_000);
    expect(after.hundredths - before.hundredths).toBeLessThan(200);
    expect(after.load - before.load).toBeLessThan(0.1);
  });

  test('programs find its own memory, and go on without what they do not see', async () => {
    const script = `nproc; free -m | awk '/^Mem/{print $2}'; uptime | grep -c 'load average: [0-2][.]'; top -bn1 | grep -c cataton; ps -o pid= -p 1
vmstat >/dev/null && echo vmstat; python3 -c "import os; print(os.cpu_count())"
/.platform/bin/node -e "const os = require('os'); console.log(os.cpus().length, os.totalmem() / 2 ** 20, os.availableParallelism())"
script -qc 'echo a terminal' /dev/null | tr -d '\\r'; echo x >/dev/null && head -c 3 /dev/zero | wc -c; [ -e /dev/fd/1 ] && echo fd`;
    // `spec` requests one.
    const count = '1';
    expect((await run(listener, script)).split('\n').map((line) => line.trim())).toEqual([
      count,
      '256',
      '1',
      '1',
      '1',
      'vmstat',
      count,
      `${count} 256 ${count}`,
      'a terminal',
      '3',
      'fd',
    ]);
  });
});
