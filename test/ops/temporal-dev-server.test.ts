import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { choosePorts } from '../../ops/local-stack/embedded/ports.ts';
import { startTemporalDevServer } from '../../ops/local-stack/embedded/temporal-dev-server.ts';
import { temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'temporal-dev-server-test-'));

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

test('the fallback keeps its workflows in SQLite, has the search attributes, and serves its Web UI', async () => {
  const { port, uiPort } = await choosePorts(dir, [
    { name: 'port', preferred: 19_200 },
    { name: 'uiPort', preferred: 19_300 },
  ]);
  const options = { cli: temporalPrograms().cli, dir, home: { logDir: dir }, port, uiPort, namespace: 'default' };
  const first = await startTemporalDevServer(options);
  const connection = await Connection.connect({ address: first.address });
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
  expect(Object.keys(customAttributes!)).toContain('SandboxStatus');
  const started = await connection.workflowService.startWorkflowExecution({
    namespace: 'default',
    requestId: 'once',
    workflowId: 'kept',
    workflowType: { name: 'nobodyRunsThis' },
    taskQueue: { name: 'none' },
  });
  expect((await fetch(first.uiUrl)).status).toBe(200);
  await connection.close();
  await first.stop();

  const second = await startTemporalDevServer(options);
  const again = await Connection.connect({ address: second.address });
  const { workflowExecutionInfo } = await again.workflowService.describeWorkflowExecution({
    namespace: 'default',
    execution: { workflowId: 'kept' },
  });
  expect(workflowExecutionInfo?.execution?.runId).toBe(started.runId);
  await again.close();
  await second.stop();
});
