import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runCommand } from './command.mjs';
import { lockFile } from './file-lock.mjs';
import { stopSignal } from './progress.mjs';
import { systemPackagesTitle } from './system-packages.mjs';
import { timeSkippingTestServer as location, versions } from './toolchain/locations.mjs';

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>toolchain</groupId>
  <artifactId>time-skipping-test-server</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>io.temporal</groupId>
      <artifactId>temporal-test-server</artifactId>
      <version>${versions.timeSkippingTestServer}</version>
    </dependency>
  </dependencies>
</project>
`;

/** The SDK starts it as `<program> <port> …`, and gives it five seconds. */
const wrapper = `#!/bin/sh
dir=$(dirname "$(readlink -f "$0")")
exec java "\${CLASS_ARCHIVE_OPTION:--XX:SharedArchiveFile=$dir/classes.jsa}" -Xlog:cds=off -Xlog:cds+dynamic=off \\
  -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$dir/lib/*" io.temporal.testserver.TestServer "$1"
`;

/**
 * Temporal's time-skipping test server, from its Maven artifacts.
 * @returns {import('./progress.mjs').Step}
 */
export function timeSkippingTestServer() {
  const { dir, program } = location();
  const classes = path.join(dir, 'classes.jsa');
  return {
    title: "Temporal's time-skipping test server",
    needs: [systemPackagesTitle],
    isDone: () => fs.existsSync(classes),
    async run() {
      const lock = await lockFile(path.join(path.dirname(dir), 'test-server.lock'), { wait: true, stop: stopSignal() });
      try {
        if (!fs.existsSync(dir)) await fetchJars(dir);
        if (!fs.existsSync(classes)) await archiveClasses(program, classes);
      } finally {
        await lock.release();
      }
    },
  };
}

async function fetchJars(dir) {
  const unfinished = `${dir}.unfinished`;
  try {
    fs.rmSync(unfinished, { recursive: true, force: true });
    fs.mkdirSync(unfinished, { recursive: true });
    fs.writeFileSync(path.join(unfinished, 'pom.xml'), pom);
    const plugin = `org.apache.maven.plugins:maven-dependency-plugin:${versions.mavenDependencyPlugin}`;
    const options = ['-DoutputDirectory=lib', '-DincludeScope=runtime'];
    await runCommand('mvn', ['--batch-mode', `${plugin}:copy-dependencies`, ...options], {
      cwd: unfinished,
      what: 'fetching its jars with Maven',
    });
    fs.renameSync(unfinished, dir);
  } finally {
    fs.rmSync(unfinished, { recursive: true, force: true });
  }
}

/**
 * Runs it once and makes Java store the loaded classes. Then it starts in a third of the time, even on a busy machine.
 */
async function archiveClasses(program, classes) {
  const unfinished = `${classes}.unfinished`;
  fs.rmSync(unfinished, { force: true });
  fs.writeFileSync(program, wrapper, { mode: 0o755 });
  const port = await freePort();
  const env = { ...process.env, CLASS_ARCHIVE_OPTION: `-XX:ArchiveClassesAtExit=${unfinished}` };
  const server = spawn(program, [`${port}`], { stdio: 'ignore', env });
  const ended = once(server, 'exit');
  const deadline = Date.now() + 120_000;
  while (server.exitCode === null && Date.now() < deadline && !(await canConnect(port))) await delay(50);
  server.kill('SIGTERM');
  await ended;
  if (!fs.existsSync(unfinished)) throw new Error(`${program} did not run: is Java 17 or newer there?`);
  fs.renameSync(unfinished, classes);
}

async function freePort() {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

function canConnect(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}
