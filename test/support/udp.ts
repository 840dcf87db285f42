import { spawn } from 'node:child_process';

/** Sends the message repeatedly until it is answered or `waitMs` are over, and prints the first answer. */
const asking = `
const [address, port, message, waitMs, from] = process.argv.slice(1);
const socket = require('dgram').createSocket('udp4');
const send = () => socket.send(message, Number(port), address);
const timer = setInterval(send, 100);
const end = (text) => { clearInterval(timer); socket.close(); process.stdout.write(text); };
const late = setTimeout(() => end(''), Number(waitMs));
socket.on('message', (answer, peer) => { clearTimeout(late); end(peer.address + ':' + peer.port + ' ' + answer); });
socket.bind(Number(from), send);`;

/** Answers every datagram with `echo <text> to <sender's address>`. Run it with Node in a sandbox. */
export const udpEcho = (port: number) => `
const socket = require('dgram').createSocket('udp4');
socket.on('message', (text, peer) => socket.send('echo ' + text + ' to ' + peer.address, peer.port, peer.address));
socket.bind(${port});`;

/**
 * Sends a datagram. Returns `<address:port> <text>` of the answer, or an empty text when none arrives within `waitMs`.
 * @param through words of a command that sends it, for example from another network namespace
 */
export async function askUdp(
  hostPort: string,
  message: string,
  options: { through?: [string, string[]]; waitMs?: number; fromPort?: number } = {},
): Promise<string> {
  const [address, port] = hostPort.split(':') as [string, string];
  const words = ['-e', asking, address, port, message, String(options.waitMs ?? 45_000), String(options.fromPort ?? 0)];
  const [command, before] = options.through ?? [process.execPath, []];
  const asked = options.through ? [...before, process.execPath, ...words] : words;
  const child = spawn(command, asked, {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let answer = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    answer += text;
  });
  await new Promise((resolve) => child.once('close', resolve));
  return answer;
}
