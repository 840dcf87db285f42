import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { LocalHost, nothing, onHost, shell } from './local-host.ts';

/** Root in a sandbox answers in its agent's place. Its host goes on, and ends the sandbox when it is asked to. */
let host: LocalHost;
beforeEach(async () => {
  host = await LocalHost.open();
}, 180_000);
afterEach(async () => {
  await host.driver.reconcile([]);
  expect(await host.driver.inventory()).toMatchObject(nothing);
  await host.close();
});

const replacementPort = 5000;

/** Answers each connection with a file: once and then nothing, or again and again; slowly, or as fast as it is read. */
const replacement = `
use IO::Socket::INET;
$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my ($mode) = @ARGV;
my $server = IO::Socket::INET->new(LocalPort => ${replacementPort}, Listen => 64, ReuseAddr => 1) or die;
open my $file, '<:raw', '/root/answer'; local $/; my $answer = <$file>;
while (my $client = $server->accept) {
  next if fork;
  sysread $client, my $request, 4096;
  if ($mode eq 'bytes') { for (split //, $answer) { syswrite $client, $_ or last; select undef, undef, undef, 0.2 } }
  elsif ($mode eq 'loop') { 1 while syswrite $client, $answer }
  else { syswrite $client, $answer if length $answer }
  sleep 600;
}`;

/** From now on whoever connects to the agent's port reaches the replacement. */
async function replaceAgent(place: SandboxPlace, spec: SandboxSpec, mode: string, answer: string): Promise<void> {
  const encoded = (text: string) => Buffer.from(text).toString('base64');
  const { exitCode, output } = await shell(
    place,
    spec,
    `echo ${encoded(answer)} | base64 -d >/root/answer; echo ${encoded(replacement)} | base64 -d >/root/replacement
     setsid perl /root/replacement ${mode} </dev/null >/dev/null 2>&1 &
     for i in $(seq 100); do perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("127.0.0.1:${replacementPort}")' && exit 0; sleep 0.1; done; exit 1`,
  );
  expect([exitCode, output]).toEqual([0, '']);
  const { processes } = await host.driver.inventory();
  const inNetwork = (...words: string[]) => onHost('nsenter', `--net=/proc/${processes[0]}/ns/net`, 'nft', ...words);
  inNetwork('add table ip replaced');
  inNetwork('add chain ip replaced in { type nat hook prerouting priority -100; }');
  inNetwork(`add rule ip replaced in tcp dport ${place.agentPort} redirect to :${replacementPort}`);
}

test.each([
  ['accepts and never answers', 'once', ''],
  ['answers 101', 'once', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
  ['answers with 1xx replies without end', 'loop', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)],
  ['answers one byte at a time', 'bytes', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(1000)}\r\n\r\n`],
])(
  'an agent that %s: a resume gives up in time, and a stop overtakes it',
  async (_what, mode, answer) => {
    const spec = host.spec();
    const place = await host.driver.create(spec);
    await replaceAgent(place, spec, mode, answer);
    await host.driver.close();
    await host.start({ agentStartTimeoutSeconds: 2 });
    await host.driver.pause(spec.sandboxId);

    const started = performance.now();
    await expect(host.driver.resume(spec)).rejects.toMatchObject({ code: 'agent_not_answering' });
    expect(performance.now() - started).toBeLessThan(15_000);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');

    const resuming = host.driver.resume(spec).catch((error) => error);
    const waiting = host.driver.resume(spec).catch((error) => error);
    await sleep(300);
    const asked = performance.now();
    await host.driver.stop(spec.sandboxId);
    expect(performance.now() - asked).toBeLessThan(5000);
    expect([await resuming, await waiting]).toMatchObject([{ code: 'aborted' }, { code: 'aborted' }]);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('exited');
  },
  60_000,
);

test('cold starts of one account that never end leave another its usual time, and can be stopped', async () => {
  const timed = async () => {
    const spec = host.spec({ accountId: 'acc-neighbour' });
    const started = performance.now();
    await host.driver.create(spec);
    const tookMs = performance.now() - started;
    await host.driver.remove(spec.sandboxId);
    return tookMs;
  };
  const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
  const usual = median([await timed(), await timed(), await timed()]);

  // More than there are permits for cold starts. Every program that starts waits for somebody to write to the pipe.
  const specs = Array.from({ length: 2 * os.availableParallelism() + 2 }, () =>
    host.spec({ accountId: 'acc-hostile' }),
  );
  for (const spec of specs) {
    const place = await host.driver.create(spec);
    await shell(place, spec, 'mkfifo /etc/ld.so.preload');
    await host.driver.stop(spec.sandboxId);
  }
  const resumes = specs.map((spec) => host.driver.resume(spec).catch((error) => error));
  await sleep(1000);
  const meanwhile = median([await timed(), await timed(), await timed()]);
  process.stdout.write(`create: usually ${usual.toFixed(0)} ms, beside hanging ones ${meanwhile.toFixed(0)} ms\n`);
  expect(meanwhile).toBeLessThan(3 * Math.max(1000, usual));

  const asked = performance.now();
  await Promise.all(specs.map(({ sandboxId }) => host.driver.remove(sandboxId)));
  expect(performance.now() - asked).toBeLessThan(15_000);
  for (const outcome of await Promise.all(resumes)) expect(outcome).toMatchObject({ code: 'aborted' });
}, 180_000);
