import type { StoreId } from '../../../core/domain/link.ts'
import type { Images, StoredImage } from '../../../core/ports/store/images.ts'
import { type CallsOf, locked, noteStoreChange, type Reads, row, type Steps, type Tx } from './transaction.ts'

const nameOf = (hash: string) => `image:${hash}`

export const imageWrites = {
  *set(tx: Tx, storeId: StoreId, image: StoredImage, avatarUrl: string, updatedAtMs: number): Steps<void> {
    const { hash, mediaType, bytes } = image
    const store = yield* tx.one<{ username: string }>`
      SELECT username FROM stores WHERE id = ${storeId} ${locked}`
    const before = yield* imageOf(tx, storeId)
    yield* tx.hold(nameOf(hash), ...(before === undefined ? [] : [nameOf(before)]))
    yield* tx.run`INSERT INTO images ${row({ hash, media_type: mediaType, bytes })} ON CONFLICT DO NOTHING`
    yield* tx.run`INSERT INTO store_images ${row({ store_id: storeId, hash })}
      ON CONFLICT (store_id) DO UPDATE SET hash = excluded.hash`
    if (before !== undefined) yield* deleteUnused(tx, before)
    yield* tx.run`UPDATE stores SET avatar_url = ${avatarUrl}, updated_at_ms = ${updatedAtMs} WHERE id = ${storeId}`
    yield* noteStoreChange(tx, store!.username)
  },
}

/** Deletes a store's former image, if its address has changed. The caller has locked the store's row. */
export function* hideImage(tx: Tx, storeId: StoreId, avatarUrl: string): Steps<void> {
  const hash = yield* imageOf(tx, storeId)
  if (hash === undefined || avatarUrl.includes(hash)) return
  yield* tx.hold(nameOf(hash))
  yield* tx.run`DELETE FROM store_images WHERE store_id = ${storeId}`
  yield* deleteUnused(tx, hash)
}

function* imageOf(tx: Tx, storeId: StoreId): Steps<string | undefined> {
  const shown = yield* tx.one<{ hash: string }>`SELECT hash FROM store_images WHERE store_id = ${storeId}`
  return shown?.hash
}

/** Deletes an image that no store shows. The lock of its name keeps other transactions from showing it meanwhile. */
function* deleteUnused(tx: Tx, hash: string): Steps<void> {
  yield* tx.run`DELETE FROM images
    WHERE hash = ${hash} AND NOT EXISTS (SELECT 1 FROM store_images WHERE hash = ${hash})`
}

/** Uploaded images. The bytes are stored once for all stores that show the image. */
export function createImages(
  { images }: { readonly images: CallsOf<typeof imageWrites> },
  reads: Reads,
): Images {
  return {
    ...images,

    async find(hash) {
      const found = await reads.one<{ media_type: string; bytes: Uint8Array }>`
        SELECT media_type, bytes FROM images WHERE hash = ${hash}`
      return found && { hash, mediaType: found.media_type, bytes: found.bytes }
    },
  }
}
