/** The published package has no dependencies: `bundle.mjs` puts the library into this file after the compiler. */
export { extract, type Header, pack } from 'tar-stream';
