/** An image that hosts make themselves could not be made. Its message is for everybody; the cause stays inside. */
export class ImageBuildError extends Error {
  override name = 'ImageBuildError';
}
