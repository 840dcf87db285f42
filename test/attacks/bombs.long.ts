import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { readCopyId } from '../faults/machine.ts';
import { LocalHost, shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { Neighbour } from './neighbour.ts';

/**
 * Runs with `npm run test:faults`, because it measures and needs the machine for itself. One sandbox does its worst;
 * its neighbour must be as quick as before, and the host must be well. The attacker has one processor, because the
 * machine may have only two, and the restriction is measured, not the sharing of a processor.
 */
interface Bomb {
  what: string;
  /** A shell script that never ends by itself. */
  script: string;
  /** Whether the bomb has had its full effect. By default: when it has written `/dev/shm/off`. */
  hasGoneOff?: (attacker: Attacker) => Promise<boolean>;
  wanted?: Partial<SandboxSpec>;
  /** Conditions of the host during the attack. */
  host?: (attacker: Attacker) => void;
}

interface Attacker {
  spec: SandboxSpec;
  place: SandboxPlace;
}

const python = (code: string) => `python3 -c '${code}'`;

const bombs: Bomb[] = [
  {
    what: 'a fork bomb',
    // The agent first answers the starting request.
    script: python(`import os, time
time.sleep(1)
while True:
  try:
    if os.fork() == 0: continue
  except OSError: pass`),
    // It leaves no free process number for a shell of the test.
    hasGoneOff: async () => (await host.inventory()).processes.length > 1000,
    wanted: { memoryMb: 2048 },
  },
  {
    what: 'a memory bomb',
    script: `while :; do ${python('held = []\nwhile True: held.append(bytearray(b"x" * (1 << 20)))')}; echo >/dev/shm/off; done`,
  },
  {
    what: 'a full disk, over and over',
    script: 'while :; do head -c 2G /dev/zero >/root/big; echo >/dev/shm/off; rm /root/big; done',
  },
  {
    what: 'every inode of the disk, over and over',
    script: `mkdir /root/many; cd /root/many; ${python(`import os
n = 0
while True:
  try: os.mknod(str(n)); n += 1
  except OSError: open("/dev/shm/off", "w"); os.unlink(str(n - 1)); n -= 1`)}`,
  },
  {
    what: 'a million files in one folder',
    script: `mkdir /root/many; cd /root/many; ${python(`import os
for n in range(1000000): os.mknod(str(n))
open("/dev/shm/off", "w")
while True: os.listdir(".")`)}`,
    wanted: { storageGb: 20, memoryMb: 1024 },
  },
  {
    what: 'threads that spin on every processor',
    script: 'for n in $(seq 64); do while :; do :; done & done; echo >/dev/shm/off; wait',
  },
  {
    what: 'threads that spin, each asking for the longest turn there is',
    script: python(`import ctypes, os, struct
turn = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100000000, 0, 0)
number = 274 if os.uname().machine == "aarch64" else 314
ctypes.CDLL(None).syscall(number, 0, turn, 0)
open("/dev/shm/off", "w")
for n in range(64):
  if os.fork() == 0: break
while True: pass`),
  },
  {
    what: 'ten thousand connections to itself, their buffers full',
    script: `ulimit -n $(ulimit -Hn); ${python(`import resource, socket, time
server = socket.socket(); server.bind(("127.0.0.1", 7777)); server.listen(4096)
held = []
def pair():
  client = socket.create_connection(("127.0.0.1", 7777)); other = server.accept()[0]
  client.setblocking(False); held.append((client, other))
for n in range(5000):
  try: pair()
  except OSError: break
open("/dev/shm/off", "w").write(str(2 * len(held)))
while True:
  for client, _ in held:
    try: client.send(b"x" * 65536)
    except OSError: pass`)}`,
    hasGoneOff: async ({ spec, place }) => (await shell(place, spec, 'cat /dev/shm/off')).output === '10000',
    host: () => {
      const pages = Number(/^TCP: .* mem (\d+)$/m.exec(readFileSync('/proc/net/sockstat', 'latin1'))![1]);
      expect(pages * 4096).toBeLessThan(512 * 1024 ** 2);
    },
  },
  {
    what: 'packets to a hundred thousand addresses',
    script: python(`import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
while True:
  n += 1
  for first in (224 << 24, 11 << 24):
    try: s.sendto(b"x", (socket.inet_ntoa(struct.pack("!I", first + 256 + n % 100000)), 9))
    except OSError: pass
  if n == 100000: open("/dev/shm/off", "w")`),
    wanted: { allowInternetAccess: true },
  },
  {
    what: 'a command that floods its log',
    script: 'echo >/dev/shm/off; exec sleep 1000',
    wanted: { command: { entrypoint: ['/bin/sh', '-c'], cmd: ['yes "$(head -c 4000 /dev/zero | tr "\\\\0" x)"'] } },
    host: ({ spec }) => {
      const folder = path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId);
      const files = readdirSync(folder).filter((name) => name !== 'disk.ext4');
      for (const name of files) expect(statSync(path.join(folder, name)).size).toBeLessThan(64 * 1024);
    },
  },
];

let host: LocalHost;
let neighbour: Neighbour;
let cgroups: Cgroups;

beforeAll(async () => {
  host = await LocalHost.open();
  cgroups = new Cgroups(`sandboxes-${readCopyId(host.dataDir)}`);
  const spec = host.spec();
  neighbour = new Neighbour(await host.driver.create(spec), spec);
  for (let n = 0; n < 200; n += 1) await neighbour.stat();
}, 180_000);

afterAll(async () => {
  neighbour.close();
});
afterAll(() => host.closeEmpty());

async function attack(bomb: Bomb): Promise<Attacker> {
  const spec = host.spec(bomb.wanted);
  const place = await host.driver.create(spec);
  const script = `setsid sh -c "$(cat <<'BOMB'\n${bomb.script}\nBOMB\n)" >/dev/null 2>&1 </dev/null &`;
  await shell(place, spec, script);
  await until(() => hasGoneOff(bomb, { spec, place }), 150_000);
  return { spec, place };
}

async function hasGoneOff(bomb: Bomb, attacker: Attacker): Promise<boolean> {
  if (bomb.hasGoneOff) return bomb.hasGoneOff(attacker);
  return (await shell(attacker.place, attacker.spec, 'test -e /dev/shm/off')).exitCode === 0;
}

test.each(bombs.map((bomb) => [bomb.what, bomb] as const))(
  '%s: a neighbour answers within twice its time, or 5 ms more',
  async (_what, bomb) => {
    const attacker = await attack(bomb);
    const { quietMs, attackedMs } = await neighbour.besides(cgroups, attacker.spec);
    bomb.host?.(attacker);
    await host.driver.remove(attacker.spec.sandboxId);
    process.stdout.write(`| ${bomb.what} | ${quietMs.toFixed(2)} ms | ${attackedMs.toFixed(2)} ms |\n`);
    // One turn of the scheduler can double half a millisecond, without any attack.
    expect(attackedMs).toBeLessThanOrEqual(Math.max(2 * quietMs, quietMs + 5));
  },
  180_000,
);
