/** A change in the database by any process. Caches then drop the old value. */
export type Change =
  | { readonly kind: 'link'; readonly username: string; readonly slug: string }
  | { readonly kind: 'store'; readonly username: string }

export interface Changes {
  publish(change: Change): void
  /** @returns a function that ends the subscription */
  subscribe(listener: (change: Change) => void): () => void
  close(): Promise<void>
}
