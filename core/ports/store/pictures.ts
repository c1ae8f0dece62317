import type { StoreId } from '../../domain/link.ts'

/** A picture that this service shows. */
export interface StoredPicture {
  /** SHA-256 of the bytes, hex: part of its address, so that what is at an address never changes. */
  readonly hash: string
  readonly mediaType: string
  readonly bytes: Uint8Array
}

/**
 * The pictures of stores, each kept once, however many stores show it, and as long as one does: a store whose `avatarUrl` names
 * the hash.
 */
export interface Pictures {
  /** Keeps the picture and sets the store's `avatarUrl`, in one commit. The store's last picture goes. */
  set(storeId: StoreId, picture: StoredPicture, avatarUrl: string, updatedAtMs: number): Promise<void>
  find(hash: string): Promise<StoredPicture | undefined>
}
