/**
 * The reserve of a file system for the platform's own writes, and the limits at which its host acts. They are computed
 * from its size. Plain JavaScript, because set-up compares the free space with them before npm packages are installed.
 * @typedef {object} DiskLimits
 * @property {number} admitBytes Below this the host takes no sandbox and resumes none.
 * @property {number} pauseBytes Below this the sandboxes that grow fastest are paused.
 * @property {number} reserveBytes Below this every sandbox is frozen, because the rest is for the platform.
 * @property {number} admitInodes
 * @property {number} reserveInodes
 * @property {number} ballastBytes The size of the files that are removed in an emergency; see `ballast.ts`.
 * @property {number} ballastInodes
 */

const mib = 1024 ** 2;

/** @param {number} value @param {number} least @param {number} most */
const clamp = (value, least, most) => Math.floor(Math.min(most, Math.max(least, value)));

/**
 * @param {number} totalBytes of the file system
 * @param {number} totalInodes
 * @returns {DiskLimits}
 */
export function diskLimits(totalBytes, totalInodes) {
  const reserveBytes = clamp(totalBytes / 10, 128 * mib, 2048 * mib);
  const reserveInodes = clamp(totalInodes / 20, 250, 10_000);
  return {
    admitBytes: Math.floor(2.5 * reserveBytes),
    pauseBytes: Math.floor(1.75 * reserveBytes),
    reserveBytes,
    admitInodes: Math.floor(2.5 * reserveInodes),
    reserveInodes,
    ballastBytes: clamp(totalBytes / 32, 32 * mib, 256 * mib),
    ballastInodes: clamp(totalInodes / 64, 64, 1000),
  };
}
