// A CommonJS module, because the SDK loads it by path with require(), on the main thread and inside the workflow
// bundle.
const { DefaultFailureConverter } = require('@temporalio/common');

/** Moves messages and stack traces of failures into a payload, so that the codec encrypts them too. */
exports.failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
