import type { PluginStore } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'
import type { Records } from '../ports/records.ts'

const MOST_BYTES = 65_536

/** One plugin's memory: a record of its own, which no other plugin and no agent can name. @param place see `buildPrograms` */
export function createPluginStore(records: Records, place: string): PluginStore {
  const id = `plugin-${place}`
  return {
    read: () => records.getJson<unknown>('state', id),
    async write(value) {
      const text = JSON.stringify(value)
      if (text === undefined || Buffer.byteLength(text) > MOST_BYTES)
        throw new VaultError('VALIDATION_ERROR', `Expected JSON of at most ${MOST_BYTES} bytes.`)
      await records.put('state', id, text)
    },
  }
}
