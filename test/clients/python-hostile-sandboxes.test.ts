import fs from 'node:fs';
import type http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { HostileAgent } from './hostile-agent.ts';
import { hostileTars, pathsBelow } from './hostile-tars.ts';
import { PythonWithClient } from './installed-python.ts';

/** The Python client against an agent that root in a sandbox has replaced. */
const program = path.join(import.meta.dirname, 'python-hostile-copies.py');
const agent = new HostileAgent();
let python: PythonWithClient;
let dir: string;

beforeAll(async () => {
  [python] = await Promise.all([PythonWithClient.make(), agent.start()]);
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'python-hostile-'));
}, 300_000);

afterAll(() => {
  agent.stop();
  python?.remove();
  fs.rmSync(dir, { recursive: true, force: true });
});

test.each(['sync', 'async'])(
  'the client (%s) writes nothing outside of the targets of its copies, leaves nothing incomplete, and ends replies that have no end',
  async (kind) => {
    const folder = path.join(dir, kind);
    const tars = await Promise.all(hostileTars.map(({ tar }) => tar()));
    for (const index of tars.keys()) {
      fs.mkdirSync(path.join(folder, `${index}/beside`), { recursive: true });
      fs.writeFileSync(path.join(folder, `${index}/beside/precious`), 'precious');
    }
    fs.writeFileSync(path.join(folder, 'report'), 'old');
    agent.answers['Filesystem/Stat'] = (_, reply) => answerWithoutEnd(reply);
    agent.answers.archive = (request, reply) => {
      if (request.method === 'POST') answerWithoutEnd(reply);
      else reply.end(tars[Number(new URL(request.url!, 'http://agent').searchParams.get('path')!.slice(1))]);
    };
    agent.answers.download = (_, reply) => {
      reply.writeHead(200, { 'content-length': 100 }).write('part', () => reply.destroy());
    };
    const { apiUrl, gatewayUrl } = agent.connection;
    const env = { PLATFORM_URL: apiUrl, PLATFORM_API_KEY: 'key', PLATFORM_GATEWAY: gatewayUrl };
    const output = await python.run([program, kind, agent.sandboxId, folder, String(tars.length)], env);
    const outcomes: [string | null, string][] = JSON.parse(output);
    expect(outcomes.map(([code]) => code)).toEqual([
      ...hostileTars.map(({ code }) => (code === undefined ? 'copied' : code)),
      'connection_failed',
      ...['bad_reply', 'bad_reply'],
    ]);
    for (const [code, text] of outcomes) if (code) expect(text).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    for (const [index, { left }] of hostileTars.entries()) {
      const target = path.join(folder, `${index}`);
      expect([index, pathsBelow(path.join(target, 'work'))]).toEqual([index, left]);
      expect(pathsBelow(path.join(target, 'beside'))).toEqual(['precious']);
      expect(fs.readFileSync(path.join(target, 'beside/precious'), 'utf8')).toBe('precious');
      expect(fs.readdirSync(target).sort()).toEqual(['beside', 'work']);
    }
    expect(fs.readFileSync(path.join(folder, 'report'), 'utf8')).toBe('old');
    expect(fs.readdirSync(folder)).toHaveLength(tars.length + 1);
  },
  300_000,
);

/** Sends zeros until the client leaves. */
function answerWithoutEnd(reply: http.ServerResponse): void {
  const zeros = new Readable({
    read() {
      this.push(Buffer.alloc(64 * 1024));
    },
  });
  // The client leaves in the middle, which is an error of the pipe.
  pipeline(zeros, reply, () => {});
}
