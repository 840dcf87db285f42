import fs from 'node:fs';
import path from 'node:path';
import type { Client } from '@temporalio/client';
import proto, { type temporal } from '@temporalio/proto';

const { History } = proto.temporal.api.history.v1;
const historiesDir = path.resolve(import.meta.dirname, '../fixtures/histories');

/** Stores the current history of a workflow for the replay tests of later versions. */
export async function recordHistory(client: Client, name: string, workflowId: string, runId?: string): Promise<void> {
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  fs.mkdirSync(historiesDir, { recursive: true });
  fs.writeFileSync(path.join(historiesDir, `${name}.pb`), History.encode(history).finish());
}

/** The names of the recorded histories. */
export function recordedHistories(): string[] {
  return fs.readdirSync(historiesDir).map((file) => path.basename(file, '.pb'));
}

/** A recorded history. Its payloads are encrypted with the tests' key. */
export function readHistory(name: string): temporal.api.history.v1.History {
  return History.decode(fs.readFileSync(path.join(historiesDir, `${name}.pb`)));
}
