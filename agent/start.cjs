'use strict';
// Runs the bundle beside this file with its code cache: V8 then compiles nothing at start.
const fs = require('node:fs');
const vm = require('node:vm');

const bundle = `${__dirname}/agent.js`;
const cache = `${__dirname}/agent.cache`;
let cachedData;
try {
  cachedData = fs.readFileSync(cache);
} catch {
  // Without its cache the bundle is compiled, which is only slower.
}
const script = new vm.Script(fs.readFileSync(bundle, 'latin1'), { filename: bundle, cachedData });
cachedData = undefined;
// The build asks for the cache when the agent has served what it should know by heart.
if (process.env.AGENT_CODE_CACHE) {
  process.once('SIGUSR2', () => {
    fs.writeFileSync(process.env.AGENT_CODE_CACHE, script.createCachedData());
    process.exit();
  });
}
script.runInThisContext()(require);
