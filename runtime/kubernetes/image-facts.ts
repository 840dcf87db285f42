import { z } from 'zod';

/** What the driver has to know of an image before it can make a pod of it; found by a pod of that image. */
export interface ImageFacts {
  /** The folders directly in `/` that are on a sandbox's disk. */
  folders: string[];
  /** `uid:gid` of the image's user. */
  user: string;
  /** The image's working folder. */
  cwd: string;
}

const facts = z.object({
  folders: z
    .array(z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/))
    .min(1)
    .max(64),
  user: z.string().regex(/^\d+:\d+$/),
  cwd: z.string().startsWith('/').max(1024),
});

/** Comes from inside an image, so it is checked. @throws {Error} when it is of another shape */
export function readImageFacts(text: string): ImageFacts {
  return facts.parse(JSON.parse(text));
}
