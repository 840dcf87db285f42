import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { EventType, Filesystem } from '../../agent/proto/gen/sandboxagent_pb.js';
import { eventually, headers, type Protocol, TestAgent } from './support/agent.ts';

let agent: TestAgent;
beforeAll(async () => {
  agent = await TestAgent.start();
});
afterAll(() => agent.stop());

/** Reads a watch until `done` returns true, when all expected events have arrived. */
class Watch {
  readonly events: string[] = [];
  error: ConnectError | undefined;
  readonly #abort = new AbortController();
  #finished: Promise<void> = Promise.resolve();

  static async open(path: string, recursive = false, protocol: Protocol = 'connect+json'): Promise<Watch> {
    const watch = new Watch();
    const stream = agent.client(Filesystem, protocol).watchDir({ path, recursive }, { signal: watch.#abort.signal });
    await new Promise<void>((started, failed) => {
      watch.#finished = (async () => {
        try {
          for await (const { event } of stream) {
            if (event.case === 'start') started();
            if (event.case === 'filesystem') watch.events.push(`${EventType[event.value.type]} ${event.value.name}`);
            if (event.case === 'keepalive') watch.events.push('keepalive');
          }
        } catch (error) {
          watch.error = ConnectError.from(error);
          failed(watch.error);
        }
      })();
    });
    return watch;
  }

  async until(...wanted: string[]): Promise<void> {
    await eventually(() => wanted.every((event) => this.events.includes(event)));
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#finished;
  }

  /** Resolves when the agent has ended the stream. */
  async end(): Promise<void> {
    await this.#finished;
  }
}

const makeFolder = (name: string) => {
  const folder = agent.path(name);
  fs.mkdirSync(folder);
  return folder;
};

test.each(['connect+json', 'connect+proto', 'grpc-web', 'grpc'] as const)(
  '%s reports create, write, chmod, rename and remove by name',
  async (protocol) => {
    const folder = makeFolder(`kinds-${protocol}`);
    fs.writeFileSync(`${folder}/existing`, '');
    const watch = await Watch.open(folder, false, protocol);
    fs.writeFileSync(`${folder}/a`, 'content');
    await watch.until('WRITE a');
    fs.chmodSync(`${folder}/a`, 0o600);
    await watch.until('CHMOD a');
    fs.renameSync(`${folder}/a`, `${folder}/b`);
    await watch.until('CREATE b');
    fs.rmSync(`${folder}/b`);
    fs.rmSync(`${folder}/existing`);
    await watch.until('REMOVE existing');
    expect(watch.events).toEqual([
      'CREATE a',
      'WRITE a',
      'CHMOD a',
      'RENAME a',
      'CREATE b',
      'REMOVE b',
      'REMOVE existing',
    ]);
    await watch.close();
  },
);

test('without recursive, changes below send no event', async () => {
  const folder = makeFolder('flat');
  fs.mkdirSync(`${folder}/sub`);
  const watch = await Watch.open(folder);
  fs.writeFileSync(`${folder}/sub/deep`, '');
  fs.writeFileSync(`${folder}/last`, '');
  await watch.until('CREATE last');
  expect(watch.events).toEqual(['CREATE last']);
  await watch.close();
});

test('recursive reports every change below once, also in directories that are made later', async () => {
  const folder = makeFolder('deep');
  fs.mkdirSync(`${folder}/old/er`, { recursive: true });
  const watch = await Watch.open(folder, true);
  fs.writeFileSync(`${folder}/old/er/file`, '');
  const wanted: string[] = ['CREATE old/er/file'];
  // Made faster than any program can watch them.
  for (let i = 0; i < 40; i++) {
    fs.mkdirSync(`${folder}/new${i}/a/b/c`, { recursive: true });
    fs.writeFileSync(`${folder}/new${i}/a/b/c/file`, '');
    wanted.push(
      `CREATE new${i}`,
      `CREATE new${i}/a`,
      `CREATE new${i}/a/b`,
      `CREATE new${i}/a/b/c`,
      `CREATE new${i}/a/b/c/file`,
    );
  }
  await watch.until(...wanted);
  const creates = watch.events.filter((event) => event.startsWith('CREATE'));
  expect(creates.sort()).toEqual(wanted.sort());
  await watch.close();
});

test('a directory moved within the tree has its new name in later events', async () => {
  const folder = makeFolder('moving');
  fs.mkdirSync(`${folder}/before`);
  const watch = await Watch.open(folder, true);
  fs.renameSync(`${folder}/before`, `${folder}/after`);
  await watch.until('RENAME before', 'CREATE after');
  fs.writeFileSync(`${folder}/after/file`, '');
  await watch.until('CREATE after/file');
  fs.renameSync(`${folder}/after`, agent.path('outside'));
  await watch.until('RENAME after');
  fs.writeFileSync(agent.path('outside', 'unseen'), '');
  fs.writeFileSync(`${folder}/last`, '');
  await watch.until('CREATE last');
  expect(watch.events.join()).not.toContain('unseen');
  await watch.close();
});

/** The tree that the events describe: what was created, and neither removed nor moved away with its folder. */
function announcedTree(events: string[]): string[] {
  const tree = new Set<string>();
  for (const event of events) {
    const [type, name] = [event.slice(0, event.indexOf(' ')), event.slice(event.indexOf(' ') + 1)];
    if (type === 'CREATE') tree.add(name);
    if (type !== 'REMOVE' && type !== 'RENAME') continue;
    for (const below of tree) if (below === name || below.startsWith(`${name}/`)) tree.delete(below);
  }
  return [...tree].sort();
}

const listTree = (folder: string) => (fs.readdirSync(folder, { recursive: true }) as string[]).sort();

test('a folder that is moved in, from the tree or from outside, is announced with its contents', async () => {
  const folder = makeFolder('moved-in');
  const outside = makeFolder('moved-in-outside');
  fs.mkdirSync(`${outside}/a/deep`, { recursive: true });
  fs.writeFileSync(`${outside}/a/deep/file`, '');
  const watch = await Watch.open(folder, true);
  fs.renameSync(`${outside}/a`, `${folder}/a`);
  await watch.until('CREATE a/deep/file');
  // Neither the move nor the file is known to the agent when the other one happens.
  fs.renameSync(`${folder}/a`, `${folder}/b`);
  fs.writeFileSync(`${folder}/b/deep/at-once`, '');
  await watch.until('RENAME a', 'CREATE b', 'CREATE b/deep', 'CREATE b/deep/file', 'CREATE b/deep/at-once');
  fs.writeFileSync(`${folder}/b/deep/later`, '');
  await watch.until('CREATE b/deep/later');
  expect(announcedTree(watch.events)).toEqual(listTree(folder));
  await watch.close();
});

test('two folders that swap their names are both announced', async () => {
  const folder = makeFolder('swapped');
  fs.mkdirSync(`${folder}/a`);
  fs.mkdirSync(`${folder}/b`);
  const watch = await Watch.open(folder, true);
  const exchange = 'import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b"a", -100, b"b", 2))';
  execFileSync('python3', ['-c', exchange], { cwd: folder });
  fs.writeFileSync(`${folder}/a/in-a`, '');
  fs.writeFileSync(`${folder}/b/in-b`, '');
  await watch.until('CREATE a/in-a', 'CREATE b/in-b');
  expect(announcedTree(watch.events)).toEqual(listTree(folder));
  await watch.close();
});

test('after many moves, creations and removals at once the announced tree is the real one', async () => {
  const folder = makeFolder('storm');
  const storm = `
import os, random, shutil, sys
random.seed(int(sys.argv[1]))
names = ["a", "b", "c"]
def any_path(): return "/".join(random.choice(names) for _ in range(random.randint(1, 4)))
for turn in range(1500):
    path, other = any_path(), any_path()
    try:
        kind = random.random()
        if kind < 0.35: os.makedirs(path)
        elif kind < 0.6: open(path + "/f%d" % (turn % 5), "w").close()
        elif kind < 0.85: os.rename(path, other)
        elif kind < 0.9: os.rename(path, "../storm-outside/" + str(turn % 3))
        elif kind < 0.95: os.rename("../storm-outside/" + str(turn % 3), path)
        else: shutil.rmtree(path)
    except OSError: pass
`;
  makeFolder('storm-outside');
  for (let seed = 1; seed <= 4; seed++) {
    const watch = await Watch.open(folder, true);
    watch.events.push(...listTree(folder).map((name) => `CREATE ${name}`));
    execFileSync('python3', ['-c', storm, String(seed)], { cwd: folder });
    const last = `last-${seed}`;
    fs.writeFileSync(`${folder}/${last}`, '');
    await watch.until(`CREATE ${last}`);
    expect(watch.error).toBeUndefined();
    await eventually(() => announcedTree(watch.events).join() === listTree(folder).join());
    await watch.close();
  }
}, 300_000);

test('5,000 files made at once all send events', async () => {
  const folder = makeFolder('burst');
  const watch = await Watch.open(folder);
  execFileSync('/bin/sh', ['-c', `cd "${folder}" && seq 5000 | xargs touch`]);
  const wanted = Array.from({ length: 5000 }, (_, i) => `CREATE ${i + 1}`);
  await eventually(() => watch.events.filter((event) => event.startsWith('CREATE')).length === 5000);
  expect(watch.events.filter((event) => event.startsWith('CREATE')).sort()).toEqual(wanted.sort());
  await watch.close();
});

test('the stream and the poll report lost events', async () => {
  const folder = makeFolder('flood');
  const streamed = await Watch.open(folder);
  const { watcherId } = await agent.client(Filesystem).createWatcher({ path: folder, recursive: true });
  // More than the kernel queues while the agent is stopped.
  const limit = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  agent.process.kill('SIGSTOP');
  const names = [`${folder}/one`, `${folder}/two`] as const;
  fs.writeFileSync(names[0], '');
  // Two events each.
  for (let move = 0; move < limit; move += 1) fs.renameSync(names[move % 2]!, names[(move + 1) % 2]!);
  agent.process.kill('SIGCONT');
  await streamed.end();
  expect(streamed.error).toMatchObject({ code: Code.DataLoss, rawMessage: expect.stringContaining('lost') });

  const poll = () => agent.client(Filesystem).getWatcherEvents({ watcherId });
  await expect(poll()).rejects.toMatchObject({ code: Code.DataLoss });
  fs.writeFileSync(`${folder}/afterwards`, '');
  await eventually(async () =>
    (await poll().catch(() => ({ events: [] }))).events.some(({ name }) => name === 'afterwards'),
  );
}, 300_000);

test('a recursive watch whose root was moved says that it is over', async () => {
  const folder = makeFolder('root-before');
  const { watcherId } = await agent.client(Filesystem).createWatcher({ path: folder, recursive: true });
  fs.renameSync(folder, agent.path('root-after'));
  fs.mkdirSync(agent.path('root-after', 'new'));
  const poll = () => agent.client(Filesystem).getWatcherEvents({ watcherId });
  await eventually(() =>
    poll().then(
      () => false,
      (error) => ConnectError.from(error).code === Code.DataLoss,
    ),
  );
  await expect(poll()).rejects.toMatchObject({ code: Code.DataLoss, rawMessage: expect.stringContaining('was moved') });
});

test('polling gives each event once, and none after the watcher was removed', async () => {
  const folder = makeFolder('polled');
  const files = agent.client(Filesystem);
  const { watcherId } = await files.createWatcher({ path: folder });
  expect((await files.getWatcherEvents({ watcherId })).events).toEqual([]);
  fs.writeFileSync(`${folder}/one`, 'x');
  const seen: string[] = [];
  await eventually(async () => {
    const { events } = await files.getWatcherEvents({ watcherId });
    seen.push(...events.map(({ type, name }) => `${EventType[type]} ${name}`));
    return seen.includes('WRITE one');
  });
  expect(seen).toEqual(['CREATE one', 'WRITE one']);
  await files.removeWatcher({ watcherId });
  await expect(files.getWatcherEvents({ watcherId })).rejects.toMatchObject({ code: Code.NotFound });
  await expect(files.removeWatcher({ watcherId })).rejects.toMatchObject({ code: Code.NotFound });
});

test('the end of the watched directory sends an event and ends the stream', async () => {
  const folder = makeFolder('ending');
  const watch = await Watch.open(folder);
  fs.rmSync(folder, { recursive: true });
  await watch.end();
  expect(watch.error).toBeUndefined();
  expect(watch.events).toContain('REMOVE .');
});

test('a missing path is not_found, a file invalid_argument', async () => {
  fs.writeFileSync(agent.path('plain'), '');
  for (const [path, code] of [
    [agent.path('missing'), Code.NotFound],
    [agent.path('plain'), Code.InvalidArgument],
  ] as const) {
    await expect(Watch.open(path)).rejects.toMatchObject({ code });
    await expect(agent.client(Filesystem).createWatcher({ path })).rejects.toMatchObject({ code });
  }
});

test('a silent watch sends keepalives at the requested interval', async () => {
  const folder = makeFolder('silent');
  const stream = agent
    .client(Filesystem, 'connect+json', { 'keepalive-ping-interval': '0.05' })
    .watchDir({ path: folder }, { signal: AbortSignal.timeout(60_000) });
  const cases: (string | undefined)[] = [];
  for await (const { event } of stream) {
    cases.push(event.case);
    if (cases.length === 3) break;
  }
  expect(cases).toEqual(['start', 'keepalive', 'keepalive']);
});

test('names that are not UTF-8 have the form of ListDir', async () => {
  const folder = makeFolder('raw');
  const watch = await Watch.open(folder);
  fs.writeFileSync(Buffer.concat([Buffer.from(`${folder}/x`), Buffer.from([0xff])]), '');
  await watch.until('CREATE x\uf7ff');
  expect(watch.events.join()).toContain('x\uf7ff');
  await watch.close();
});

test('a watch of a disconnected client is removed', async () => {
  const folder = makeFolder('left');
  const first = await Watch.open(folder, true);
  const other = makeFolder('other');
  const open = await Promise.all(Array.from({ length: 5 }, () => Watch.open(other, true)));
  expect([watches(folder), watches(other)]).toEqual([1, 1]);
  await Promise.all(open.map((watch) => watch.close()));
  await eventually(() => watches(other) === 0);
  expect(watches(folder)).toBe(1);
  await first.close();
});

/** The number of the agent's inotify watches on a directory. */
function watches(directory: string): number {
  const folder = `/proc/${agent.process.pid}/fd`;
  const fd = fs.readdirSync(folder).find((name) => readLink(`${folder}/${name}`) === 'anon_inode:inotify');
  const lines = fs.readFileSync(`/proc/${agent.process.pid}/fdinfo/${fd}`, 'latin1').split('\n');
  const inode = fs.statSync(directory).ino.toString(16);
  return lines.filter((line) => line.startsWith('inotify wd') && line.includes(` ino:${inode} `)).length;
}

/** '' for a descriptor that was closed after it was listed. */
function readLink(path: string): string {
  try {
    return fs.readlinkSync(path);
  } catch {
    return '';
  }
}

test.each([false, true])(
  'an upload is one event of the real file, and never shows a temporary name (recursive: %s)',
  async (recursive) => {
    const folder = makeFolder(`uploads-${recursive}`);
    const upload = async (name: string, content: string) => {
      const form = new FormData();
      form.set('path', `${folder}/${name}`);
      form.set('file', new Blob([content]));
      const reply = await fetch(`${agent.address}/upload`, { method: 'POST', headers: headers(), body: form });
      expect(reply.status).toBe(200);
    };
    const watch = await Watch.open(folder, recursive);
    await upload('a', 'first');
    await upload('a', 'second');
    await upload('last', 'content');
    await watch.until('CREATE last');
    expect(watch.events).toEqual(['CREATE a', 'WRITE a', 'CREATE last']);
    await watch.close();
  },
);

test('a folder that an upload makes also shows only the real file', async () => {
  const folder = makeFolder('upload-parents');
  const watch = await Watch.open(folder, true);
  const form = new FormData();
  form.set('path', `${folder}/new/deep/file`);
  form.set('file', new Blob(['content']));
  await fetch(`${agent.address}/upload`, { method: 'POST', headers: headers(), body: form });
  await watch.until('CREATE new/deep/file');
  expect(watch.events).toEqual(['CREATE new', 'CREATE new/deep', 'CREATE new/deep/file']);
  await watch.close();
});
