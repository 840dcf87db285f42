/** Bytes of images as plans and quotas count them. */
const bytesPerGb = 1024 ** 3;

export function bytesOfGb(gb: number): number {
  return gb * bytesPerGb;
}

/** Six decimals, as quotas are stored. */
export function gbOfBytes(bytes: number): number {
  return Math.round((bytes / bytesPerGb) * 1e6) / 1e6;
}
