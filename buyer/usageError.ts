/** The user's own input is wrong; nothing was asked and nothing signed. Never carries a key. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
