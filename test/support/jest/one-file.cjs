const path = require('node:path');

/** Jest's `--filter`: of the files that the arguments name, only the one of `ONLY_TEST_FILE`. */
module.exports = (files) => ({
  filtered: files.filter((file) => file === path.resolve(__dirname, '../../..', process.env.ONLY_TEST_FILE)),
});
