import fs from 'node:fs';
import path from 'node:path';
import { timeSkippingTestServer as location, versions } from '../toolchain/locations.mjs';
import { runCommand } from './command.mjs';
import { lockFile } from './file-lock.mjs';

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

/** The SDK starts it as \`<program> <port> …\`. One garbage collector thread: test machines are small. */
const wrapper = `#!/bin/sh
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$(dirname "$(readlink -f "$0")")/lib/*" \\
  io.temporal.testserver.TestServer "$1"
`;

/**
 * Temporal's time-skipping test server, from its Maven artifacts.
 * @returns {import('./progress.mjs').Step}
 */
export function timeSkippingTestServer() {
  const { dir } = location();
  return {
    title: "Temporal's time-skipping test server",
    isDone: () => fs.existsSync(dir),
    async run() {
      const lock = await lockFile(path.join(path.dirname(dir), 'test-server.lock'), { wait: true });
      const unfinished = `${dir}.unfinished`;
      try {
        if (fs.existsSync(dir)) return;
        fs.rmSync(unfinished, { recursive: true, force: true });
        fs.mkdirSync(unfinished, { recursive: true });
        fs.writeFileSync(path.join(unfinished, 'pom.xml'), pom);
        fs.writeFileSync(path.join(unfinished, 'temporal-test-server'), wrapper, { mode: 0o755 });
        const plugin = `org.apache.maven.plugins:maven-dependency-plugin:${versions.mavenDependencyPlugin}`;
        const options = ['-DoutputDirectory=lib', '-DincludeScope=runtime'];
        await runCommand('mvn', ['--batch-mode', `${plugin}:copy-dependencies`, ...options], {
          cwd: unfinished,
          what: 'fetching its jars with Maven',
        });
        fs.renameSync(unfinished, dir);
      } finally {
        fs.rmSync(unfinished, { recursive: true, force: true });
        await lock.release();
      }
    },
  };
}
