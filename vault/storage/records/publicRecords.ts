import { VaultError } from '../../errors/error.ts'
import { type Collection, collections, type Records } from '../../ports/records.ts'
import type { RecordStore } from './recordStore.ts'

const known: ReadonlySet<string> = new Set(collections)

/** The records that the host may reach: all but the keys, whatever name a request brings along. */
export function createPublicRecords(store: RecordStore): Records {
  const checked = (collection: Collection): Collection => {
    if (known.has(collection)) return collection
    throw new VaultError('VALIDATION_ERROR', `Expected a collection of ${collections.join(', ')}.`)
  }
  return Object.freeze<Records>({
    get: (collection, id) => store.get(checked(collection), id),
    getText: (collection, id) => store.getText(checked(collection), id),
    getJson: (collection, id) => store.getJson(checked(collection), id),
    info: (collection, id) => store.info(checked(collection), id),
    list: (collection) => store.list(checked(collection)),
    put: async (collection, id, value, options) => store.put(checked(collection), id, value, options),
    putJson: async (collection, id, value, options) => store.putJson(checked(collection), id, value, options),
    delete: async (collection, id) => store.delete(checked(collection), id),
  })
}
