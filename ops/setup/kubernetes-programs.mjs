import fs from 'node:fs';
import path from 'node:path';
import { lockFile } from './file-lock.mjs';
import { buildDisk, buildGoPrograms, findGo, goModule } from './go-programs.mjs';
import { SetupError, stopSignal } from './progress.mjs';
import { cacheDir, ciliumPrograms, gvisorPrograms, kubernetesPrograms, versions } from './toolchain/locations.mjs';

const { server, etcd, helm, cilium, gobgp, gvisor } = versions.kubernetes;
const names = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy', 'kubectl'];

/**
 * The programs of a Kubernetes cluster, from their Go modules: Kubernetes, etcd (Debian's 3.4 ends watches without a
 * resourceVersion after three seconds), Helm, Cilium, which enforces NetworkPolicies, and the runtime gVisor. Go
 * verifies each module with its checksum database.
 * @returns {import('./progress.mjs').Step}
 */
export function kubernetes() {
  const { dirs } = kubernetesPrograms();
  const folders = [...Object.values(dirs), ciliumPrograms().dir, gvisorPrograms().dir];
  return {
    title: 'Kubernetes for tests',
    expectation: 'about 40 minutes on two cores, once for this machine',
    disk: [{ folder: cacheDir(), mb: buildDisk.kubernetesMb }],
    isDone: () => folders.every((dir) => fs.existsSync(dir)),
    async run() {
      const go = await findGo();
      if (!go) throw new SetupError(`Kubernetes is built with Go ${versions.goMinimum} or newer`);
      const lock = await lockFile(path.join(path.dirname(dirs.kubernetes), 'kubernetes.lock'), {
        wait: true,
        stop: stopSignal(),
      });
      try {
        if (!fs.existsSync(dirs.etcd)) {
          await buildGoPrograms(go, dirs.etcd, { etcd: ['go.etcd.io/etcd/server/v3', etcd] });
        }
        if (!fs.existsSync(dirs.kubernetes)) await buildKubernetes(go, dirs.kubernetes);
        if (!fs.existsSync(dirs.helm)) {
          await buildGoPrograms(go, dirs.helm, { helm: ['helm.sh/helm/v4/cmd/helm', helm] });
        }
        if (!fs.existsSync(ciliumPrograms().dir)) await buildCilium(go);
        if (!fs.existsSync(gvisorPrograms().dir)) await buildGvisor(go);
      } finally {
        await lock.release();
      }
    },
  };
}

/**
 * @param {string} go
 * @param {string} dir
 */
async function buildKubernetes(go, dir) {
  // Kubernetes refers to its own parts as v0.0.0, because they are folders of its repository. As modules they are
  // v0.<minor>.<patch>.
  const [, minor, patch] = server.split('.');
  const { goMod } = await goModule(go, `k8s.io/kubernetes@v${server}`);
  const parts = [...goMod.matchAll(/^\s*(k8s\.io\/[a-z0-9-]+) => \.\/staging\//gm)].map(([, part]) => part);
  const component = 'k8s.io/component-base/version';
  const version = { gitVersion: `v${server}`, gitMajor: '1', gitMinor: minor };
  await buildGoPrograms(
    go,
    dir,
    Object.fromEntries(names.map((name) => [name, [`k8s.io/kubernetes/cmd/${name}`, server]])),
    {
      replaced: Object.fromEntries(parts.map((part) => [part, `${part}@v0.${minor}.${patch}`])),
      // Without these flags the version is one that clients cannot parse.
      linkerFlags: Object.entries(version)
        .map(([name, value]) => `-X ${component}.${name}=${value}`)
        .join(' '),
    },
  );
}

/** @param {string} go */
async function buildCilium(go) {
  const { dir, agent, cni } = ciliumPrograms();
  const module = 'github.com/cilium/cilium';
  const packages = { [agent]: `${module}/daemon`, [cni]: `${module}/plugins/cilium-cni` };
  const programs = Object.entries(packages).map(([file, name]) => [path.basename(file), [name, cilium]]);
  await buildGoPrograms(go, dir, Object.fromEntries(programs), {
    // Cilium refers to a commit of this module that the module proxy does not have.
    required: { 'github.com/osrg/gobgp/v4': gobgp },
    async extras(folder) {
      const { dir: source } = await goModule(go, `${module}@v${cilium}`);
      fs.cpSync(path.join(source, 'bpf'), path.join(folder, 'bpf'), { recursive: true });
      const crds = path.join(source, 'pkg/k8s/apis/cilium.io/client/crds');
      fs.mkdirSync(path.join(folder, 'crds'));
      for (const version of fs.readdirSync(crds)) {
        for (const file of fs.readdirSync(path.join(crds, version)).filter((name) => name.endsWith('.yaml'))) {
          fs.copyFileSync(path.join(crds, version, file), path.join(folder, 'crds', file));
        }
      }
      fs.mkdirSync(path.join(folder, 'path'));
      fs.symlinkSync('/usr/bin/clang-19', path.join(folder, 'path', 'clang'));
    },
  });
}

/**
 * gVisor, of the newest version whose shim Debian's containerd understands: later ones need containerd 2.
 *
 * The shim lowers its own OOM score and ends if it may not. Root lacks this right (CAP_SYS_RESOURCE) on some machines of
 * tests, such as containers, so the shim is built without this step's error. The module is copied for this, because Go
 * refuses an `-overlay` of files in its module cache.
 * @param {string} go
 */
async function buildGvisor(go) {
  const module = 'gvisor.dev/gvisor';
  const { dir: original } = await goModule(go, `${module}@v${gvisor}`);
  const source = `${gvisorPrograms().dir}.source`;
  fs.rmSync(source, { recursive: true, force: true });
  try {
    fs.cpSync(original, source, { recursive: true });
    const file = path.join(source, 'pkg/shim/v1/service.go');
    const text = fs.readFileSync(file, 'utf8');
    const changed = text.replace(
      /if err := (sys\.SetOOMScore\([^)]*\)); err != nil \{\n.*\n\t\}/,
      (_, call) => `_ = ${call}`,
    );
    if (changed === text) throw new SetupError('the shim of gVisor sets its OOM score in another way');
    fs.rmSync(file);
    fs.writeFileSync(file, changed);
    const packages = { runsc: `${module}/runsc`, 'containerd-shim-runsc-v1': `${module}/shim` };
    const programs = Object.entries(packages).map(([name, of]) => [name, [of, gvisor]]);
    await buildGoPrograms(go, gvisorPrograms().dir, Object.fromEntries(programs), {
      replaced: { [module]: source },
    });
  } finally {
    fs.rmSync(source, { recursive: true, force: true });
  }
}
