import { execFileSync } from 'node:child_process';

const replacementPort = 5000;

/**
 * Answers each connection with a file: once and then nothing, or again and again; slowly, or as fast as the client
 * reads.
 */
const program = `
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

export interface HostileAnswer {
  what: string;
  mode: 'once' | 'loop' | 'bytes';
  answer: string;
}

/** Answers that root in a sandbox may send in place of the agent to make its caller wait. */
export const hostileAnswers: readonly HostileAnswer[] = [
  { what: 'accepts and never answers', mode: 'once', answer: '' },
  {
    what: 'answers 101',
    mode: 'once',
    answer: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  },
  {
    what: 'answers with 1xx replies without end',
    mode: 'loop',
    answer: 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000),
  },
  {
    what: 'answers one byte at a time',
    mode: 'bytes',
    answer: `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(1000)}\r\n\r\n`,
  },
];

/** A shell script for root in a sandbox that starts the replacement and ends when it listens. It prints nothing. */
export function startReplacement({ mode, answer }: HostileAnswer): string {
  const encoded = (text: string) => Buffer.from(text).toString('base64');
  return `echo ${encoded(answer)} | base64 -d >/root/answer; echo ${encoded(program)} | base64 -d >/root/replacement
setsid perl /root/replacement ${mode} </dev/null >/dev/null 2>&1 &
for i in $(seq 100); do perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("127.0.0.1:${replacementPort}")' && exit 0; sleep 0.1; done; exit 1`;
}

/**
 * Redirects new connections to the agent's port to the replacement.
 * @param pid of a process of the sandbox, as the host sees it
 */
export function redirectToReplacement(pid: number, agentPort: number): void {
  const inNetwork = (words: string) => execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'nft', words]);
  inNetwork('add table ip replaced');
  inNetwork('add chain ip replaced in { type nat hook prerouting priority -100; }');
  inNetwork(`add rule ip replaced in tcp dport ${agentPort} redirect to :${replacementPort}`);
}
