/**
 * The `tar` command that packs files for a layer of an image. It reads a list of names that end with NUL, and writes
 * the archive to standard output.
 */
const tarWords = (folder, list) => [
  '/.platform/bin/tar',
  ...['--create', '--format=posix', '--numeric-owner', '--sparse', '--no-recursion', '--one-file-system'],
  ...['--xattrs', '--xattrs-include=user.*', '--xattrs-include=security.capability'],
  '--xattrs-include=system.posix_acl_*',
  '--pax-option=delete=atime,delete=ctime,exthdr.name=PaxHeaders',
  ...[`--directory=${folder}`, '--null', '--verbatim-files-from', `--files-from=${list}`],
];

module.exports = { tarWords };
