import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Mounts a file system whose server never answers at `/mnt` of a sandbox. A process that uses it waits in a state that
 * no signal and no freezer interrupts.
 * @param initPid the sandbox's first process, as the host sees it
 * @returns `asked`, which resolves when a process waits, and a function that ends the server and so the waiting
 */
export async function hangMount(initPid: number): Promise<{ asked: Promise<void>; letGo: () => Promise<void> }> {
  const [setns, mount] = process.arch === 'arm64' ? [268, 40] : [308, 165];
  const stuck = `$| = 1; open F, '+<', '/dev/fuse' or die $!; open N, '<', '/proc/${initPid}/ns/mnt' or die $!;
    my ($what, $where, $type) = ('stuck', '/mnt', 'fuse');
    my $how = 'fd=' . fileno(F) . ',rootmode=40000,user_id=0,group_id=0,allow_other';
    syscall(${setns}, fileno N, 0) == 0 && syscall(${mount}, $what, $where, $type, 0, $how) == 0 or die $!;
    sysread F, my $request, 65536;
    syswrite F, pack('L l a8 L4 S2 L2 S2 a32', 80, 0, substr($request, 8, 8), 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, '');
    print 'mounted'; sysread F, $request, 65536; print 'asked'; 1 while sysread F, $request, 65536`;
  const server = spawn('perl', ['-e', stuck], { stdio: ['ignore', 'pipe', 'inherit'] });
  // Both words may arrive together.
  const words = { mounted: Promise.withResolvers<void>(), asked: Promise.withResolvers<void>() };
  let said = '';
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    for (const word of ['mounted', 'asked'] as const) if (said.includes(word)) words[word].resolve();
  });
  server.once('close', () => words.mounted.reject(new Error('the file system was not mounted')));
  await words.mounted.promise;
  return {
    asked: words.asked.promise,
    letGo: async () => {
      server.kill();
      await once(server, 'close');
    },
  };
}
