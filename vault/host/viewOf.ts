import type { RequestView } from '../../core/plugin/vault.ts'
import type { Decoded } from '../effects/decoded.ts'

/** What plugins see of a request: its meaning, without the bytes, because byte arrays can't be frozen. */
export const viewOf = ({
  kind,
  chain,
  from,
  effects,
  warnings,
  isOpaque,
  plainWords,
}: Decoded): RequestView => Object.freeze({ kind, chain, from, effects, warnings, isOpaque, plainWords })
