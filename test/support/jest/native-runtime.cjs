const { registerHooks } = require('node:module');
const { pathToFileURL } = require('node:url');
const Runtime = require('jest-runtime').default;

/**
 * Runs the modules of a test file in Node itself. Jest's own runtime loads all modules again for each file, in a
 * separate context. Here the files of a worker process share modules, as the platform's processes do; only the test
 * file, the set-up files and Jest's own state are new for each file. There is no replacement of modules, and no fake
 * clock: tests that change something global restore it.
 */
const { getOrInitializeCascadedLoader } = require('internal/modules/esm/loader');
const globals = pathToFileURL(require.resolve('./globals.mjs')).href;
let loads = 0;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: globals, shortCircuit: true } : next(specifier, context),
});

module.exports = class NativeRuntime extends Runtime {
  #loaded = [];

  /** The modules of Jest itself: `expect` must have the same `Error`, `String` and so on as the tests. */
  requireInternalModule(file) {
    delete require.cache[file];
    return require(file);
  }

  unstable_shouldLoadAsEsm() {
    return true;
  }

  /** Test files and set-up files. */
  async unstable_importModule(file) {
    Object.assign(globalThis, this.jestGlobals.cjsGlobals(file));
    loads += 1;
    const url = `${pathToFileURL(file).href}?load=${loads}`;
    this.#loaded.push(url);
    return import(url);
  }

  teardown() {
    super.teardown();
    // What the file holds, such as an API with its compiled routes. Node has no public way to forget a module.
    for (const url of this.#loaded) getOrInitializeCascadedLoader().loadCache.delete(url);
    // The tests of the file, and what their functions hold.
    for (const symbol of Object.getOwnPropertySymbols(globalThis)) {
      if (['JEST_STATE_SYMBOL', 'EVENT_HANDLERS'].includes(symbol.description)) delete globalThis[symbol];
    }
  }
};
