import { type AssetRef, mayBeNft } from './assets.ts'

/** Money leaves an account: at once, or whenever somebody submits what was signed. */
export interface TransferEffect {
  readonly kind: 'transfer'
  readonly asset: AssetRef
  /** Atomic units. */
  readonly amount: bigint
  /** The account whose money it is. */
  readonly from: string
  /** Where it goes, as the transaction says it: an address, on Solana for tokens a token account. */
  readonly to: string
  /** Solana: the wallet that the token account is proved to belong to, by derivation. */
  readonly toOwner?: string
  /** How, in one word of the chain's: `send`, `transfer`, `transferWithAuthorization` … */
  readonly via: string
  /** Seconds since 1970 from which on a signed authorisation can be used; absent for a transaction. */
  readonly validAfter?: bigint
  /** Seconds since 1970 until which a signed authorisation can be used; absent for a transaction. */
  readonly validBefore?: bigint
}

/** Somebody else may take up to `amount` later. A permit is one whose signature somebody still has to submit. */
export interface AllowanceEffect {
  readonly kind: 'allowance'
  readonly asset: AssetRef
  /** The whole value that the spender may take, in atomic units; 0 takes an allowance back, unless it is added. */
  readonly amount: bigint
  /** True where the amount is added to whatever the spender may take already; that stays as it is. */
  readonly isAdded?: boolean
  /** True where the amount is one of those that tokens take for "everything, for ever". */
  readonly isUnlimited: boolean
  readonly owner: string
  readonly spender: string
  readonly via: string
  /**
   * Seconds since 1970 until which the spender may take; absent where it has no end. 0 is Permit2's way to say: only in the
   * block in which it begins.
   */
  readonly expiresAt?: bigint
  /**
   * Seconds since 1970 until which a signed permit can be submitted; absent for a transaction. It is not the end of what was
   * permitted: an allowance of EIP-2612 that was made in time stays for good.
   */
  readonly submitBefore?: bigint
}

/** How ERC-721 and ERC-1155 allow everything, or nothing: no number of an NFT is in it. */
export const forAll = 'setApprovalForAll'

/** Whether what this allows may be one NFT, whose number the amount is. */
export const mayAllowNft = ({ asset, via }: AllowanceEffect): boolean => mayBeNft(asset) && via !== forAll

/** Setting an allowance to nothing. Adding nothing to one leaves it as it was, and an NFT may have the number 0. */
export const isTakenBack = (effect: AllowanceEffect): boolean =>
  effect.amount === 0n && effect.isAdded !== true && !mayAllowNft(effect)

/** An account is made on the chain; its rent is paid with native money and belongs to its owner from then on. */
export interface AccountEffect {
  readonly kind: 'account'
  readonly account: string
  readonly owner: string
  readonly asset: AssetRef
  readonly payer: string
  /** Atomic native units, at most. */
  readonly rent: bigint
}

/** A text that is written into the chain; moves nothing. */
export interface NoteEffect {
  readonly kind: 'note'
  readonly text: string
}

/** Something that could not be understood completely: it may do anything. */
export interface OpaqueEffect {
  readonly kind: 'opaque'
  /** The contract or program, or what was signed. */
  readonly target: string
  readonly reason: string
}

/** One thing that a request does, in terms that are the same on every chain. */
export type Effect = TransferEffect | AllowanceEffect | AccountEffect | NoteEffect | OpaqueEffect

/** What the network takes at most. */
export interface Fee {
  /** Atomic native units, the most that can be charged. Rent of new accounts is not in it, see {@link AccountEffect}. */
  readonly amount: bigint
  readonly asset: AssetRef
  /** Who pays it. */
  readonly payer: string
}
