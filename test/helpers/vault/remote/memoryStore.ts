import type { PairingRecord, PairingStore } from '../../../../vault/remote/pairingRecord.ts'

/** Pairings in memory; they survive a connector, not the process. Kept as text, as a file would. */
export function memoryStore(): PairingStore & { readonly texts: ReadonlyMap<string, string> } {
  const texts = new Map<string, string>()
  return {
    texts,
    list: async () => [...texts.values()].map((text) => JSON.parse(text) as PairingRecord),
    async put(record) {
      texts.set(record.id, JSON.stringify(record))
    },
    async delete(id) {
      texts.delete(id)
    },
  }
}
