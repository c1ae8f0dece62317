/** The plugins are in an order that can't work, or one of them refused its set-up. */
export class GenerationError extends Error {
  override readonly name = 'GenerationError'
}
