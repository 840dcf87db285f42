const path = require('node:path');
const Sequencer = require('@jest/test-sequencer').default;

/**
 * These files and folders run first, in this order. The first file measures turns of the event loop, in which a heap with
 * the modules of earlier files takes longer to collect. The others take longest, and one of them alone at the end would
 * keep the run.
 */
const first = [
  'test/api/event-loop.test.ts',
  'test/machines/',
  'test/docs/every-block.test.ts',
  'test/e2e/backup.test.ts',
  'test/e2e/sandboxes/sandbox.test.ts',
  'test/clients/python-client.test.ts',
  'test/workflows/webhooks/webhook-delivery.test.ts',
  'test/ops/admin.test.ts',
  'test/e2e/',
  'test/docs/',
  'test/faults/',
  'test/runtime/',
];

/** As Jest's own order, largest files first, but with `first` before all others. */
module.exports = class FirstFiles extends Sequencer {
  sort(tests) {
    const rank = ({ path: file, context }) => {
      const at = first.findIndex((each) => path.relative(context.config.rootDir, file).startsWith(each));
      return at < 0 ? first.length : at;
    };
    return super.sort(tests).sort((a, b) => rank(a) - rank(b));
  }
};
