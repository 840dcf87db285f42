'use strict';
// The floor for bench/agent/run.ts: the same work by the shortest Node program that does it. It has no token, no
// checks, and only the parts of the protocol that the client reads.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');

/** @param {string} path */
function readEntry(path) {
  const stat = fs.lstatSync(path);
  return {
    name: path.slice(path.lastIndexOf('/') + 1),
    type: stat.isDirectory() ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE',
    path,
    size: String(stat.size),
    mode: stat.mode & 0o7777,
    permissions: (stat.mode & 0o777).toString(8),
    owner: String(stat.uid),
    group: String(stat.gid),
    modifiedTime: stat.mtime.toISOString(),
  };
}

/** A Connect frame with a text. @param {string} text */
function createFrame(text, flags = 0) {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

const answers = {
  SendInput({ process: { pid }, input: { stdin } }) {
    children.get(pid).stdin.write(Buffer.from(stdin, 'base64'));
    return {};
  },
  SendSignal({ process: { pid } }) {
    children.get(pid).kill('SIGKILL');
    return {};
  },
  Stat: ({ path }) => ({ entry: readEntry(path) }),
  ListDir: ({ path }) => ({ entries: fs.readdirSync(path).map((name) => readEntry(`${path}/${name}`)) }),
};

const children = new Map();

function start({ process: { cmd, args = [] } }, res) {
  const child = spawn(cmd, args);
  children.set(child.pid, child);
  res.write(createFrame(JSON.stringify({ event: { start: { pid: child.pid } } })));
  child.stdout.on('data', (chunk) => {
    const taken = res.write(createFrame(JSON.stringify({ event: { data: { stdout: chunk.toString('base64') } } })));
    if (taken) return;
    child.stdout.pause();
    res.once('drain', () => child.stdout.resume());
  });
  child.stderr.resume();
  child.on('close', (exitCode) => {
    children.delete(child.pid);
    res.write(createFrame(JSON.stringify({ event: { end: { exitCode } } })));
    res.end(createFrame('{}', 2));
  });
}

function watchDir({ path }, res) {
  res.write(createFrame(JSON.stringify({ event: { start: {} } })));
  const watcher = fs.watch(path, (type, name) =>
    res.write(createFrame(JSON.stringify({ event: { filesystem: { name, type } } }))),
  );
  res.on('close', () => watcher.close());
}

const server = http.createServer((req, res) => {
  if (req.url === '/health') return res.end('OK');
  if (req.url.startsWith('/download')) return fs.createReadStream(req.url.slice('/download'.length)).pipe(res);
  if (req.url === '/upload') {
    // The form is stored as it arrives, and its parts are not parsed.
    const file = fs.createWriteStream(req.headers['x-floor-path']);
    return req.pipe(file).on('finish', () => res.end());
  }
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    const method = req.url.slice(req.url.lastIndexOf('/') + 1);
    if (method === 'WatchDir') return watchDir(JSON.parse(body.subarray(5)), res);
    if (method === 'Start') return start(JSON.parse(body.subarray(5)), res);
    const reply = Buffer.from(JSON.stringify(answers[method](JSON.parse(body))));
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': reply.length });
    res.end(reply);
  });
});
server.listen(Number(process.env.AGENT_PORT), '127.0.0.1');
