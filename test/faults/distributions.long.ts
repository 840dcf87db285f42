import fs from 'node:fs';
import path from 'node:path';
import { type Family, packagesFor, packagesOf } from '../../platform/config/programs.mjs';
import { BareDebian } from '../ops/bare-debian.ts';

/**
 * Set-up on other distributions than the one of the short tests. Debian 13 is a real one. Of the others, only the package
 * managers are real: Debian has packages of dnf, zypper and pacman. They install from a repository of the test, which has
 * a small package for each name in the list. So names that a distribution does not have are not found here.
 */

const parts = ['ops', 'platform', 'runtime', 'domain'];
const runModule = (source: string) => ['node', '--input-type=module', '--eval', source] as const;
const installPackages = runModule(
  `const { systemPackages } = await import('./ops/setup/system-packages.mjs');
   await systemPackages('start').run();`,
);
const askDriver = runModule(
  `const { requirePrerequisites } = await import('./runtime/oci/prerequisites.ts');
   try { requirePrerequisites(); console.log('nothing is missing'); } catch (error) { console.log(error.message); }`,
);

test("set-up's packages are sufficient for the driver on a bare Debian 13", async () => {
  const debian = await BareDebian.make(parts, { suite: 'trixie' });
  try {
    expect((await debian.run('cat', '/etc/os-release')).output).toContain('VERSION_ID="13"');
    expect((await debian.run(...askDriver)).output).toMatch(/^programs are missing: apt-get update && .*\bcrun\b/m);
    expect(await debian.run(...installPackages)).toMatchObject({ failed: false });
    expect(await debian.run(...askDriver)).toEqual({ failed: false, output: 'nothing is missing\n' });
    const named = await debian.run('getent', 'ahosts', 'sbx-1.sandbox.localhost');
    expect(named.output).toContain('127.0.0.1');
  } finally {
    debian.remove();
  }
}, 900_000);

interface Distribution {
  family: Exclude<Family, 'debian'>;
  release: string;
  command: string;
  /** Shell commands that make the repository `/srv/repository` of the packages in `/srv/files/<name>`, and use it. */
  makeRepository: string;
}

/** Makes RPM packages. That of crun recommends another one. */
const makeRpms = `
  for folder in /srv/files/*; do name=\${folder##*/}
    { echo "Name: $name"; test "$name" = crun && echo "Recommends: unwanted"
      printf 'Version: 1\\nRelease: 1\\nSummary: x\\nLicense: x\\nBuildArch: noarch\\nAutoReqProv: no\\n%%description\\nx\\n%%install\\nmkdir -p %%{buildroot}\\ncp -a %s/. %%{buildroot}\\n%%files\\n' "$folder"
      (cd "$folder" && find . ! -type d -printf '/%P\\n'); } > /tmp/package.spec
    rpmbuild --quiet -bb --define '_topdir /tmp/rpm' /tmp/package.spec >/tmp/rpmbuild.log 2>&1 || { cat /tmp/rpmbuild.log; exit 1; }
  done
  mkdir /srv/repository && mv /tmp/rpm/RPMS/noarch/*.rpm /srv/repository && createrepo_c --quiet /srv/repository`;

const distributions: Distribution[] = [
  {
    family: 'fedora',
    release: 'ID=fedora\nVERSION_ID=43\n',
    command: 'dnf install --assumeyes --setopt=install_weak_deps=False ',
    makeRepository: `${makeRpms}
      mkdir -p /etc/yum.repos.d
      printf '[test]\\nname=test\\nbaseurl=file:///srv/repository\\ngpgcheck=0\\n' > /etc/yum.repos.d/test.repo`,
  },
  {
    family: 'suse',
    release: 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n',
    command: 'zypper --non-interactive install --no-recommends ',
    makeRepository: `${makeRpms}
      mkdir -p /etc/zypp/repos.d
      printf '[test]\\nname=test\\nenabled=1\\ntype=rpm-md\\nbaseurl=dir:///srv/repository\\ngpgcheck=0\\n' > /etc/zypp/repos.d/test.repo`,
  },
  {
    family: 'arch',
    release: 'ID=arch\n',
    command: 'pacman --sync --needed --noconfirm ',
    makeRepository: `mkdir /srv/repository && cd /srv/repository
      for folder in /srv/files/*; do name=\${folder##*/}
        printf 'pkgname = %s\\npkgver = 1-1\\narch = any\\nsize = 1\\n' "$name" > "$folder/.PKGINFO"
        tar --create --gzip --file "$name-1-1-any.pkg.tar.gz" --directory "$folder" .PKGINFO $(ls "$folder")
      done
      repo-add --quiet test.db.tar.gz *.pkg.tar.gz
      printf '[options]\\nArchitecture = auto\\nSigLevel = Never\\n[test]\\nServer = file:///srv/repository\\n' > /etc/pacman.conf
      mkdir -p /var/lib/pacman && pacman --sync --refresh`,
  },
];

/** Programs that the root folder has, because its real distribution is Debian. */
async function missingIn(root: BareDebian, family: Family): Promise<string[]> {
  const source = `const { missingPrograms } = await import('./platform/config/programs.mjs');
    console.log(JSON.stringify(missingPrograms('start', '${family}')))`;
  return JSON.parse((await root.run(...runModule(source))).output);
}

test.each(distributions)(
  'set-up installs the packages of $family with its real package manager',
  async ({ family, release, command, makeRepository }) => {
    const include = ['createrepo-c', 'dnf', 'libarchive-tools', 'makepkg', 'pacman-package-manager', 'rpm', 'zypper'];
    const root = await BareDebian.make(parts, { include });
    try {
      fs.rmSync(path.join(root.root, 'etc/os-release'));
      fs.writeFileSync(path.join(root.root, 'etc/os-release'), release);
      const missing = await missingIn(root, family);
      expect(missing).toEqual(expect.arrayContaining(['crun', 'nft', 's3fs', 'skopeo']));
      fillPackages(root, family, missing);
      const made = await root.run('sh', '-ec', makeRepository);
      expect(made.failed ? made.output : '').toBe('');

      const user = await root.run('setpriv', '--reuid=1000', '--clear-groups', ...installPackages);
      expect(user.output).toContain(`Run as root:\n\n  ${command}`);

      const { failed, output } = await root.run(...installPackages);
      expect(failed ? output : '').toBe('');
      expect(output).toContain(command);
      expect(await missingIn(root, family)).toEqual([]);
      expect((await root.run('crun')).output).toBe(`crun of ${family}\n`);
      // Nothing that packages only recommend.
      expect(fs.existsSync(path.join(root.root, 'usr/bin/unwanted'))).toBe(false);
    } finally {
      root.remove();
    }
  },
  900_000,
);

/** Writes the files of each package of the list: the missing programs, each of which says what it is. */
function fillPackages(root: BareDebian, family: Family, missing: string[]): void {
  for (const name of [...packagesFor('start', family), 'unwanted']) {
    fs.mkdirSync(path.join(root.root, 'srv/files', name), { recursive: true });
  }
  for (const program of [...missing, 'unwanted']) {
    const [first = ''] = program.split('|');
    const name = program === 'unwanted' ? program : packagesOf([program], family)[0]!;
    const file = first.includes('.so.') ? `usr/lib64/${first}` : `usr/bin/${first}`;
    const target = path.join(root.root, 'srv/files', name, file);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.writeFileSync(target, `#!/bin/sh\necho ${first} of ${family}\n`, { mode: 0o755 });
  }
}
