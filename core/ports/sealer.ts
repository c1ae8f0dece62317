/** Keeps small secrets in the database unreadable without the server's secret, and derives tokens from it. */
export interface Sealer {
  /** AES-256-GCM under a key derived from the server's secret; `context` is authenticated (table and row id). */
  seal(plain: string, context: string): string
  /** @throws when the text was changed, or sealed under another secret or context. */
  open(sealed: string, context: string): string
  /** HMAC-SHA256 under a key derived for `purpose`: API key hashes, review tokens. */
  mac(purpose: string, text: string): Buffer
}
