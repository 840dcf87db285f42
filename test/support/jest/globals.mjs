/** `@jest/globals` of the file that runs: the support modules are loaded once, and each file has its own globals. */
const ofTheFile = (name) =>
  new Proxy(() => {}, {
    apply: (_target, _this, args) => globalThis[name](...args),
    get: (_target, key) => globalThis[name][key],
    set: (_target, key, value) => Reflect.set(globalThis[name], key, value),
  });

export const afterAll = ofTheFile('afterAll');
export const afterEach = ofTheFile('afterEach');
export const beforeAll = ofTheFile('beforeAll');
export const beforeEach = ofTheFile('beforeEach');
export const describe = ofTheFile('describe');
export const expect = ofTheFile('expect');
export const jest = ofTheFile('jest');
export const test = ofTheFile('test');
