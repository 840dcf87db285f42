/** Plans and quotas count a GB of images as 1024³ bytes. */
const bytesPerGb = 1024 ** 3;

export function bytesOfGb(gb: number): number {
  return gb * bytesPerGb;
}

/** Rounds to six decimals, because quotas are stored with six. */
export function gbOfBytes(bytes: number): number {
  return Math.round((bytes / bytesPerGb) * 1e6) / 1e6;
}
