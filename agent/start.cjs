'use strict';
// Runs the bundles beside this file with their code caches, so that V8 compiles nothing at the start.
const fs = require('node:fs');
const vm = require('node:vm');

const scripts = new Map();

/** Runs `name`.js and returns its exports. A bundle requires another one as `./name.js`. */
function load(name) {
  const filename = `${__dirname}/${name}.js`;
  let cachedData;
  try {
    cachedData = fs.readFileSync(`${__dirname}/${name}.cache`);
  } catch {
    // Without its cache the bundle is compiled, which is only slower.
  }
  const script = new vm.Script(fs.readFileSync(filename, 'latin1'), { filename, cachedData });
  scripts.set(name, script);
  const module = { exports: {} };
  const ask = (id) => (id.startsWith('./') ? load(id.slice(2, -3)) : require(id));
  script.runInThisContext()(ask, module, module.exports);
  return module.exports;
}

// The build requests the caches after the agent has served one request of each kind.
if (process.env.AGENT_CODE_CACHE) {
  process.once('SIGUSR2', () => {
    for (const [name, script] of scripts) {
      fs.writeFileSync(`${process.env.AGENT_CODE_CACHE}/${name}.cache`, script.createCachedData());
    }
    process.exit();
  });
}
load('core');
