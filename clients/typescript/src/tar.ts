/** The published package has no dependencies: `build.mjs` puts the library into this file after the compiler. */
export { extract, type Header, pack } from 'tar-stream';
