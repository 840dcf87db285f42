import fs from 'node:fs';
import path from 'node:path';
import { runCommand } from './command.mjs';
import { lockFile } from './file-lock.mjs';
import { stopSignal } from './progress.mjs';
import { systemPackagesTitle } from './system-packages.mjs';
import { paymentTestServer, versions } from './toolchain/locations.mjs';

/**
 * A payment processor for tests (localstripe): Python packages in their own folder, installed by pip in a virtual
 * environment, because Debian's pip refuses to install elsewhere.
 * @returns {import('./progress.mjs').Step}
 */
export function paymentTestServerProgram() {
  const { packages } = paymentTestServer();
  return {
    title: 'Payment processor for tests',
    expectation: 'some seconds, once for this machine',
    needs: [systemPackagesTitle],
    isDone: () => fs.existsSync(packages),
    async run() {
      fs.mkdirSync(path.dirname(packages), { recursive: true });
      const lock = await lockFile(path.join(path.dirname(packages), 'payment-test-server.lock'), {
        wait: true,
        stop: stopSignal(),
      });
      try {
        if (fs.existsSync(packages)) return;
        const [environment, made] = [`${packages}.environment`, `${packages}.made`];
        for (const folder of [environment, made]) fs.rmSync(folder, { recursive: true, force: true });
        await runCommand('python3', ['-m', 'venv', environment]);
        const install = ['install', '--quiet', '--target', made, `localstripe==${versions.paymentTestServer}`];
        await runCommand(path.join(environment, 'bin', 'pip'), install);
        fs.rmSync(environment, { recursive: true });
        fs.renameSync(made, packages);
      } finally {
        await lock.release();
      }
    },
  };
}
