/**
 * An image that hosts make themselves could not be made. Its message is public. The cause stays inside the platform.
 */
export class ImageBuildError extends Error {
  override name = 'ImageBuildError';
}
