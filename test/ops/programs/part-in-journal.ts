import { ChildProgram } from '../../../ops/local-stack/embedded/child-program.ts';

/** Runs a shell script whose output goes to the journal, and prints the end of that output to standard error. */
const part = await ChildProgram.start({
  name: 'part',
  command: 'sh',
  args: ['-c', process.argv[2]!],
  home: { logDir: null },
});
await part.ended;
process.once('beforeExit', () => process.stderr.write(part.logTail()));
