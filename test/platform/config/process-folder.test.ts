import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { makeProcessFolder } from '../../../platform/config/process-folder.ts';

test('the folder of a process that has ended is removed, and those of others are not', () => {
  const parent = fs.mkdtempSync(path.join(os.tmpdir(), 'process-folder-'));
  try {
    const ended = spawnSync('true').pid;
    const kept = ['part-other', `part-x${ended}-a`, `another-${ended}-a`, `part-${process.ppid}-a`];
    for (const name of [...kept, `part-${ended}-a`]) fs.mkdirSync(path.join(parent, name));
    fs.writeFileSync(path.join(parent, `part-${ended}-a`, 'file'), '');
    const made = makeProcessFolder(parent, 'part-');
    expect(path.basename(made)).toMatch(new RegExp(`^part-${process.pid}-\\w+$`));
    expect(fs.readdirSync(parent).sort()).toEqual([...kept, path.basename(made)].sort());
  } finally {
    fs.rmSync(parent, { recursive: true });
  }
});

test('the folder of another user stays, because it cannot be removed or must not be', () => {
  const parent = fs.mkdtempSync(path.join(os.tmpdir(), 'process-folder-'));
  try {
    const foreign = path.join(parent, `part-${spawnSync('true').pid}-a`);
    fs.mkdirSync(foreign);
    fs.chownSync(foreign, 65_534, 65_534);
    makeProcessFolder(parent, 'part-');
    expect(fs.existsSync(foreign)).toBe(true);
  } finally {
    fs.rmSync(parent, { recursive: true });
  }
});
