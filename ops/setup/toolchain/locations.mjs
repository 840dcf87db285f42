import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/**
 * The folders of the programs that set-up makes once. Plain JavaScript, because set-up runs it with the machine's own
 * Node. A folder's name contains versions, so a new version never uses an old program.
 */

/** @type {{temporal: {server: string, cli: string, cliSha256: {amd64: string, arm64: string}, ui: string}, goMinimum: string, go: string, syft: string, kubernetes: {server: string, etcd: string, helm: string, cilium: string, gobgp: string, gvisor: string}, s3TestServer: string, paymentTestServer: string, timeSkippingTestServer: string, mavenDependencyPlugin: string, registry: string}} */
export const versions = JSON.parse(fs.readFileSync(new URL('./versions.json', import.meta.url), 'utf8'));

/**
 * The folder for everything that can be made again. All copies on the machine share it (`PLATFORM_CACHE_DIR`).
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string}
 */
export function cacheDir(env = process.env) {
  if (env.PLATFORM_CACHE_DIR) return path.resolve(env.PLATFORM_CACHE_DIR);
  return path.resolve(env.XDG_CACHE_HOME || path.join(homeFolder(), '.cache'), 'sandbox-platform');
}

function homeFolder() {
  try {
    return os.homedir();
  } catch {
    // Without HOME and without an entry in passwd(5).
    return '/';
  }
}

/**
 * Temporal's programs, built from their Go modules.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function temporalPrograms(env = process.env) {
  const { server, cli, ui } = versions.temporal;
  const dir = path.join(cacheDir(env), 'toolchain', `temporal-server-${server}-cli-${cli}-ui-${ui}-${process.arch}`);
  return {
    dir,
    server: path.join(dir, 'temporal-server'),
    sqlTool: path.join(dir, 'temporal-sql-tool'),
    ui: path.join(dir, 'temporal-ui-server'),
    cli: path.join(dir, 'temporal'),
  };
}

/**
 * Temporal's CLI alone, which contains a development server, as downloaded.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function temporalDevServer(env = process.env) {
  const dir = path.join(cacheDir(env), 'toolchain', `temporal-cli-${versions.temporal.cli}-${process.arch}`);
  return { dir, cli: path.join(dir, 'temporal') };
}

/**
 * A file of a data folder whose workflows are in the Postgres of Temporal's server. The development server keeps its own
 * elsewhere, so neither can go on with the workflows of the other.
 * @param {string} dataDir
 */
export const temporalServerMark = (dataDir) => path.join(dataDir, 'temporal', 'embedded.yaml');

/**
 * The OCI registry (CNCF Distribution) for distributions without Debian's package of it.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function registryProgram(env = process.env) {
  const dir = path.join(cacheDir(env), 'toolchain', `registry-${versions.registry}-${process.arch}`);
  return { dir, program: path.join(dir, 'docker-registry') };
}

/**
 * Temporal's time-skipping test server: jars, and a wrapper with the port as its argument.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function timeSkippingTestServer(env = process.env) {
  const dir = path.join(cacheDir(env), 'toolchain', `temporal-test-server-${versions.timeSkippingTestServer}`);
  return { dir, program: path.join(dir, 'temporal-test-server') };
}

/**
 * The S3 server of the tests.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function s3TestServer(env = process.env) {
  const dir = path.join(cacheDir(env), 'toolchain', `versitygw-${versions.s3TestServer}-${process.arch}`);
  return { dir, program: path.join(dir, 'versitygw') };
}

/**
 * The programs of the Kubernetes cluster of the tests. Each folder exists only when all of its programs are complete.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function kubernetesPrograms(env = process.env) {
  const { server, etcd, helm } = versions.kubernetes;
  const toolchain = path.join(cacheDir(env), 'toolchain');
  const kubernetes = path.join(toolchain, `kubernetes-${server}-${process.arch}`);
  const etcdDir = path.join(toolchain, `etcd-${etcd}-${process.arch}`);
  const helmDir = path.join(toolchain, `helm-${helm}-${process.arch}`);
  return {
    dirs: { kubernetes, etcd: etcdDir, helm: helmDir },
    apiServer: path.join(kubernetes, 'kube-apiserver'),
    controllerManager: path.join(kubernetes, 'kube-controller-manager'),
    scheduler: path.join(kubernetes, 'kube-scheduler'),
    kubelet: path.join(kubernetes, 'kubelet'),
    proxy: path.join(kubernetes, 'kube-proxy'),
    kubectl: path.join(kubernetes, 'kubectl'),
    etcd: path.join(etcdDir, 'etcd'),
    helm: path.join(helmDir, 'helm'),
  };
}

/**
 * The programs that enforce NetworkPolicies in the cluster of the tests: Cilium's agent, its plugin for pods' networks,
 * its custom resources, and the sources (`bpf` in `dir`) that the agent compiles for the kernel with the compiler in
 * `path`.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function ciliumPrograms(env = process.env) {
  const { cilium } = versions.kubernetes;
  const dir = path.join(cacheDir(env), 'toolchain', `cilium-${cilium}-${process.arch}`);
  return {
    dir,
    agent: path.join(dir, 'cilium-agent'),
    cni: path.join(dir, 'cilium-cni'),
    crds: path.join(dir, 'crds'),
    path: path.join(dir, 'path'),
  };
}

/**
 * gVisor, a runtime for the cluster of the tests, and its shim for containerd.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function gvisorPrograms(env = process.env) {
  const { gvisor } = versions.kubernetes;
  const commit = gvisor.split('-').at(-1);
  return { dir: path.join(cacheDir(env), 'toolchain', `gvisor-${commit}-${process.arch}`) };
}

/**
 * The payment processor of the tests: a folder of Python packages.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function paymentTestServer(env = process.env) {
  const dir = path.join(cacheDir(env), 'toolchain', `localstripe-${versions.paymentTestServer}-${process.arch}`);
  return { packages: dir };
}
