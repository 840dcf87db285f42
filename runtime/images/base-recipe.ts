import { createHash } from 'node:crypto';

/** The recipe of the base image from Debian packages. Any change gives it a new digest, so hosts make it again. */
export const baseRecipe = {
  suite: 'bookworm',
  packages: [
    'bash',
    'bzip2',
    'ca-certificates',
    'curl',
    'file',
    'git',
    'iproute2',
    'iputils-ping',
    'jq',
    'less',
    'nano',
    'netcat-openbsd',
    'openssh-client',
    'patch',
    'procps',
    'psmisc',
    'python3',
    'python3-pip',
    'python3-venv',
    'rsync',
    'sudo',
    'unzip',
    'wget',
    'xz-utils',
    'zip',
  ],
  /** Removed from every package, because sandboxes do not need them. */
  excludedPaths: [
    '/usr/share/man/*',
    '/usr/share/doc/*',
    '/usr/share/info/*',
    '/usr/share/locale/*',
    '/usr/share/lintian/*',
  ],
  includedPaths: ['/usr/share/doc/*/copyright', '/usr/share/locale/locale.alias'],
  /** Shell commands that run in this order, with the new tree as `$1`. */
  customize: [
    'chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 user',
    // The working directory of code contexts. All users of the sandbox may write there.
    'install --directory --mode 1777 "$1/workspace"',
    'echo "user ALL=(ALL) NOPASSWD: ALL" > "$1/etc/sudoers.d/user" && chmod 440 "$1/etc/sudoers.d/user"',
    // The sandbox's own files are mounted over these three files.
    ': > "$1/etc/resolv.conf" && echo sandbox > "$1/etc/hostname" && echo "127.0.0.1 localhost" > "$1/etc/hosts"',
    'rm -f "$1/etc/machine-id" && : > "$1/etc/machine-id"',
    // Debian gives ping a file capability that sandboxes lack, so ping would not start. Its ICMP socket works without
    // the capability.
    'cp "$1/usr/bin/ping" "$1/usr/bin/ping.plain" && mv "$1/usr/bin/ping.plain" "$1/usr/bin/ping"',
    // By default pip refuses to install beside Debian's packages. A sandbox has one user, so it is allowed here.
    'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
  ],
  env: { LANG: 'C.UTF-8' },
};

/** The digest of this recipe with further packages on this processor architecture. */
export function baseRecipeDigest(packages: readonly string[] = []): string {
  const wanted = packages.length > 0 ? { packages: [...baseRecipe.packages, ...packages] } : {};
  const text = JSON.stringify({ ...baseRecipe, ...wanted, arch: process.arch });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
