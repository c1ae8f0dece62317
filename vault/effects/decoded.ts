import type { SignKind } from '../ports/signer.ts'
import type { VaultChain } from './chains.ts'
import type { Effect, Fee } from './effect.ts'

/** What kind of bytes will be signed. */
export type SigningKind = 'transaction' | 'typed-data' | 'message' | 'payment'

/**
 * A request to sign, understood: what it does, what it costs, and the exact bytes. Everything is frozen; what was shown
 * is what is signed.
 */
export interface Decoded {
  readonly kind: SigningKind
  readonly chain: VaultChain
  /** The account that signs: checksummed 0x address, or base58. */
  readonly from: string
  /** EVM transactions only. */
  readonly nonce?: bigint
  readonly effects: readonly Effect[]
  readonly fee: Fee
  /** What the owner must know beside the effects, in plain words. */
  readonly warnings: readonly string[]
  /** True when any part was not understood: no rule may approve it. */
  readonly isOpaque: boolean
  /** The request in plain words, one sentence each, safe to show anywhere. */
  readonly plainWords: readonly string[]
  /** The unsigned thing itself: EVM the canonical encoding, Solana the wire transaction, else as `signingBytes`. */
  readonly frozenBytes: Uint8Array
  /** What the signer gets as `bytes`, together with `signKind` as its `kind`. */
  readonly signingBytes: Uint8Array
  readonly signKind: SignKind
  /** How the request spelled the transaction, and so how the signed one is spelled. */
  readonly encoding: 'hex' | 'json' | 'base64' | 'none'
}

/** Why a request is not decoded at all. */
export type DecodeCode = 'INVALID_TX' | 'CHAIN_MISMATCH' | 'TX_OPAQUE' | 'VALIDATION_ERROR'

export interface DecodeRefusal {
  readonly ok: false
  readonly code: DecodeCode
  /** Names what was expected and what came; never repeats the bytes. */
  readonly message: string
}

export type DecodeResult = { readonly ok: true; readonly decoded: Decoded } | DecodeRefusal
