/** Encrypts small secrets in the database with the server's secret, and derives tokens from it. */
export interface Sealer {
  /**
   * Encrypts with AES-256-GCM under a key derived from the server's secret. `context` (table and row id) is authenticated, so a
   * text cannot be decrypted in another row.
   */
  seal(plain: string, context: string): string
  /** @throws if the text was changed, or was encrypted under another secret or context */
  open(sealed: string, context: string): string
  /** HMAC-SHA256 under a key derived for `purpose`, for hashes of API keys and for review tokens. */
  mac(purpose: string, text: string): Buffer
}
