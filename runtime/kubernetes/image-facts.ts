import { z } from 'zod';

/** Facts about an image that the driver needs before it can make a sandbox of it. A pod of the image reports them. */
export interface ImageFacts {
  /** The folders in `/` that are on the sandbox's disk. */
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

/** Reads and checks the facts, because they come from inside an image. @throws {Error} when they are invalid */
export function readImageFacts(text: string): ImageFacts {
  return facts.parse(JSON.parse(text));
}
