import type { AssetTable } from './assets.ts'
import type { Decoded } from './decoded.ts'
import { plainWords } from './plainWords.ts'

/**
 * Completes what a chain plugin read: an opaque or unknown part makes the whole opaque, the words are made, and nothing
 * can be changed afterwards. Byte arrays can not be frozen, so they become copies that nobody else holds.
 */
export function finish(assets: AssetTable, draft: Omit<Decoded, 'isOpaque' | 'plainWords'>): Decoded {
  const isOpaque = draft.effects.some(
    (effect) => effect.kind === 'opaque' || (effect.kind !== 'note' && !effect.asset.isPinned),
  )
  return Object.freeze({
    ...draft,
    effects: Object.freeze(draft.effects.map((effect) => Object.freeze({ ...effect }))),
    fee: Object.freeze({ ...draft.fee }),
    warnings: Object.freeze([...draft.warnings]),
    isOpaque,
    plainWords: Object.freeze(plainWords(draft, assets)),
    frozenBytes: Uint8Array.from(draft.frozenBytes),
    signingBytes: Uint8Array.from(draft.signingBytes),
  })
}
