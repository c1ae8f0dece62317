import type { StoreId } from '../../domain/link.ts'

/** An image that Tollgate shows. */
export interface StoredImage {
  /** SHA-256 of the bytes, in hex. The image's address contains it, so that the image at an address never changes. */
  readonly hash: string
  readonly mediaType: string
  readonly bytes: Uint8Array
}

/**
 * The images of stores. Stores with the same image share one copy. An image is kept while some store's `avatarUrl` contains its
 * hash.
 */
export interface Images {
  /** Stores the image, sets the store's `avatarUrl` and deletes the store's previous image, in one commit. */
  set(storeId: StoreId, picture: StoredImage, avatarUrl: string, updatedAtMs: number): Promise<void>
  find(hash: string): Promise<StoredImage | undefined>
}
