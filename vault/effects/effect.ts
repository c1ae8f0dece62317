import { canonicalAddress } from '../../core/domain/address.ts'
import { readAddress } from '../../core/solana/addresses.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccount.ts'
import type { Spend as BudgetSpend } from '../ports/budget.ts'
import type { SignKind } from '../ports/signer.ts'
import { type AssetRef, type AssetTable, mayBeNft, pinnedAssets, type VaultChain } from './assets.ts'

/** Money leaves an account. This happens at once, or when another account submits what was signed. */
export interface TransferEffect {
  readonly kind: 'transfer'
  readonly asset: AssetRef
  /** Atomic units. */
  readonly amount: bigint
  /** True where the submitter decides how much moves, up to the amount (x402 scheme `upto`). */
  readonly isMost?: true
  /** The account that pays. */
  readonly from: string
  /** The destination in the transaction, which is an address or, for tokens on Solana, a token account. */
  readonly to: string
  /** Solana: the wallet that owns the token account. Deriving the account from the wallet proves it. */
  readonly toOwner?: string
  /** The chain's method: `send`, `transfer`, `transferWithAuthorization` … */
  readonly via: string
  /** The only account that can submit a signed authorization. Absent where any account can. */
  readonly submitter?: string
  /**
   * Set for a deposit into a payment channel. The recipient can take it only by vouchers of the account. What is left comes back to the
   * account this many seconds after it requests a withdrawal.
   */
  readonly withdrawDelaySeconds?: number
  /** Seconds since 1970 from which a signed authorization can be used. Absent for a transaction. */
  readonly validAfter?: bigint
  /** Seconds since 1970 until which a signed authorization can be used. Absent for a transaction. */
  readonly validBefore?: bigint
}

/** Another account may take up to `amount` later. A permit is an allowance by a signature that still has to be submitted. */
export interface AllowanceEffect {
  readonly kind: 'allowance'
  readonly asset: AssetRef
  /** The total that the spender may take, in atomic units. 0 revokes an allowance, unless `isAdded` is true. */
  readonly amount: bigint
  /** True where the amount is added to the existing allowance. */
  readonly isAdded?: boolean
  /** True where tokens treat the amount as unlimited. */
  readonly isUnlimited: boolean
  readonly owner: string
  readonly spender: string
  readonly via: string
  /**
   * When the spender's right ends, in seconds since 1970. Absent where it never expires. In Permit2, 0 means that it is valid
   * only in the block that includes it.
   */
  readonly expiresAt?: bigint
  /**
   * Until when a signed permit can be submitted, in seconds since 1970. Absent for a transaction. The allowance does not end
   * then: an EIP-2612 allowance that was submitted in time stays.
   */
  readonly submitBefore?: bigint
}

/** The method by which ERC-721 and ERC-1155 allow all NFTs or none. It names no NFT number. */
export const forAll = 'setApprovalForAll'

/** Whether this may allow one NFT, whose number is the amount. */
export const mayAllowNft = ({ asset, via }: AllowanceEffect): boolean => mayBeNft(asset) && via !== forAll

/**
 * Whether this revokes an allowance by setting it to zero. Adding zero does not revoke it, and an NFT may have the number 0.
 */
export const isTakenBack = (effect: AllowanceEffect): boolean =>
  effect.amount === 0n && effect.isAdded !== true && !mayAllowNft(effect)

/**
 * An account is created on the chain. The payer pays its rent in the native asset. The rent then belongs to the account's
 * owner.
 */
export interface AccountEffect {
  readonly kind: 'account'
  readonly account: string
  readonly owner: string
  readonly asset: AssetRef
  readonly payer: string
  /** Maximum rent, in atomic native units. */
  readonly rent: bigint
}

/** A text that moves nothing, such as a memo, a message or a field of typed data. */
export interface NoteEffect {
  readonly kind: 'note'
  readonly text: string
}

/** A part that could not be decoded completely. It may have any effect. */
export interface OpaqueEffect {
  readonly kind: 'opaque'
  /** The contract or program, or what was signed. */
  readonly target: string
  readonly reason: string
}

/** One effect of a request, in terms that are the same on every chain. */
export type Effect = TransferEffect | AllowanceEffect | AccountEffect | NoteEffect | OpaqueEffect

/** The maximum fee of the network. */
export interface Fee {
  /** The maximum in atomic native units, without the rent of new accounts, see {@link AccountEffect}. */
  readonly amount: bigint
  readonly asset: AssetRef
  /** The account that pays it. */
  readonly payer: string
}

/** What kind of bytes will be signed. */
type SigningKind = 'transaction' | 'typed-data' | 'message' | 'payment'

/**
 * A decoded request to sign: its effects, its cost, and the exact bytes. Everything is frozen, so that the vault signs exactly
 * what it showed.
 */
export interface Decoded {
  readonly kind: SigningKind
  readonly chain: VaultChain
  /** The account that signs, as a checksummed 0x address or in base58. */
  readonly from: string
  /** The nonce, for EVM transactions only. */
  readonly nonce?: bigint
  readonly effects: readonly Effect[]
  readonly fee: Fee
  /** Warnings for the owner about what the effects do not show. */
  readonly warnings: readonly string[]
  /** True when the vault could not decode some part. No rule may approve such a request. */
  readonly isOpaque: boolean
  /** What the request does, one sentence per effect, safe to show in any channel. */
  readonly plainWords: readonly string[]
  /**
   * The unsigned content. It is the canonical encoding of an EVM transaction, or the wire form of a Solana transaction. In
   * other cases it equals `signingBytes`.
   */
  readonly frozenBytes: Uint8Array
  /** The bytes that the signer gets, with `signKind` as their kind. */
  readonly signingBytes: Uint8Array
  readonly signKind: SignKind
  /** How the request encoded the transaction. The signed transaction gets the same encoding. */
  readonly encoding: 'hex' | 'json' | 'base64' | 'none'
}

/** Why a request is not decoded at all. */
export type DecodeCode = 'INVALID_TX' | 'CHAIN_MISMATCH' | 'TX_OPAQUE' | 'VALIDATION_ERROR'

interface DecodeRefusal {
  readonly ok: false
  readonly code: DecodeCode
  /** What was expected and what came. The message never contains the bytes. */
  readonly message: string
}

export type DecodeResult = { readonly ok: true; readonly decoded: Decoded } | DecodeRefusal

/** The maximum that a request can cost the account that signs it. */
interface Spend {
  /** Transfers and allowances at their full value, by asset id. Excludes native rent and fees. */
  readonly moved: ReadonlyMap<string, { readonly asset: AssetRef; readonly amount: bigint }>
  /** Network fee and rent of new accounts that the account pays, in atomic native units. */
  readonly fee: bigint
}

/**
 * Sums what the signing account can lose. It excludes money of other accounts and opaque parts, so the caller checks `isOpaque`
 * first.
 */
export function spendOf(decoded: Pick<Decoded, 'effects' | 'fee' | 'from'>): Spend {
  const { effects, from } = decoded
  const moved = new Map<string, { asset: AssetRef; amount: bigint }>()
  let fee = decoded.fee.payer === from ? decoded.fee.amount : 0n
  for (const effect of effects) {
    if (effect.kind === 'account') {
      if (effect.payer === from) fee += effect.rent
      continue
    }
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const payer = effect.kind === 'transfer' ? effect.from : effect.owner
    if (payer !== from || effect.amount === 0n) continue
    const before = moved.get(effect.asset.id)?.amount ?? 0n
    moved.set(effect.asset.id, { asset: effect.asset, amount: before + effect.amount })
  }
  return { moved, fee }
}

/**
 * The cost of a request as the budget counts it. Each transfer and allowance of the signing account counts at full value, for
 * its recipient or spender. The rent of an account counts for the account's owner. Fee and rent also count under
 * {@link feesId}.
 */
export function budgetSpends({
  effects,
  fee,
  from,
}: Pick<Decoded, 'effects' | 'fee' | 'from'>): BudgetSpend[] {
  const spends: BudgetSpend[] = []
  const native = fee.asset.id
  const own = fee.payer === from ? fee.amount : 0n
  let costs = own
  for (const effect of effects) {
    if (effect.kind === 'account' && effect.payer === from) {
      costs += effect.rent
      spends.push({
        asset: native,
        amount: effect.rent,
        ...(effect.owner !== from && { recipient: effect.owner }),
      })
    }
    if (effect.kind === 'transfer' && effect.from === from) {
      const recipient = effect.toOwner ?? effect.to
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient })
    }
    if (effect.kind === 'allowance' && effect.owner === from) {
      spends.push({ asset: effect.asset.id, amount: effect.amount, recipient: effect.spender })
    }
  }
  if (own > 0n) spends.push({ asset: native, amount: own })
  return costs === 0n ? spends : [...spends, { asset: feesId(fee.asset), amount: costs }]
}

/**
 * The budget id for what goes to a chain's network: fees and account rent. They also count under the native asset, so that its
 * limit covers everything that leaves the account.
 *
 * @param native the native asset of the chain: `eip155:8453/slip44:60` gives `eip155:8453/slip44:60/fees`
 */
export const feesId = ({ id }: Pick<AssetRef, 'id'>): string => `${id}/fees`

/**
 * Whether a transfer goes to a recipient, which is its address or, on Solana, its associated account for the token. The vault
 * derives that account, and never asks a node who owns it.
 */
export function goesTo(
  effect: TransferEffect,
  recipient: string,
  assets: AssetTable = pinnedAssets,
): boolean {
  const { asset, to } = effect
  const { family } = assets.chains.of(asset.chain)
  const address = canonicalAddress(family, recipient)
  if (address === undefined) return false
  if (to === address || effect.toOwner === address) return true
  if (family !== 'solana' || asset.address === 'native') return false
  const pinned = assets.byAddress(asset.chain, asset.address)
  if (pinned === undefined || readAddress(asset.address) === undefined) return false
  return tokenAccountOf(address, pinned) === to
}
