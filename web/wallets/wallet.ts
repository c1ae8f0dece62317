import type { ChainFamily } from '../../core/domain/network.ts'

/** A wallet in this browser, found by EIP-6963 (EVM) or Wallet Standard (Solana). */
export type Wallet = EvmWallet | SolanaWallet

interface FoundWallet {
  /** Stays the same for a wallet as long as the page is open. */
  readonly id: string
  readonly name: string
  /** Icon as a `data:` URL. Undefined if the wallet has no icon that may be shown. */
  readonly icon: string | undefined
  readonly family: ChainFamily
}

export interface EvmWallet extends FoundWallet {
  readonly family: 'eip155'
  readonly provider: Eip1193
}

export interface SolanaWallet extends FoundWallet {
  readonly family: 'solana'
  readonly standard: StandardWallet
}

/** @see https://eips.ethereum.org/EIPS/eip-1193 */
export interface Eip1193 {
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>
}

/** The part of a Wallet Standard wallet that the page uses. @see https://github.com/wallet-standard/wallet-standard */
export interface StandardWallet {
  readonly name: string
  readonly icon?: string
  /** `solana:mainnet`, `solana:devnet` */
  readonly chains: readonly string[]
  readonly features: Readonly<Record<string, unknown>>
  readonly accounts: readonly StandardAccount[]
}

export interface StandardAccount {
  /** Base58. */
  readonly address: string
  readonly chains: readonly string[]
  readonly features: readonly string[]
}

export type WalletFaultKind =
  /** The buyer declined in the wallet. */
  | 'declined'
  /** The wallet is on another network and did not switch. */
  | 'wrong_network'
  /** The wallet has less than the price. */
  | 'too_little'
  /** The wallet lacks a required feature. */
  | 'unfit'
  /** Any other error of the wallet. */
  | 'failed'

/** Why a wallet did not sign, in words for the buyer. Nothing was paid. */
export class WalletFault extends Error {
  readonly kind: WalletFaultKind
  constructor(kind: WalletFaultKind, message: string) {
    super(message)
    this.name = 'WalletFault'
    this.kind = kind
  }
}

/** EIP-1193 code for "the user rejected the request". Some Solana wallets use it, others state it in words. */
const userRejected = 4001

/**
 * Converts an error of a wallet that was asked to send a transaction. Only the code for the user's rejection proves that
 * nothing was sent. Wallets also say "rejected" or "canceled" if a node refused or timed out. The transaction may still be
 * included then.
 */
export function sendFaultOf(error: unknown, walletName: string): WalletFault {
  const fault = faultOf(error, walletName)
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  const isUsersNo = code === userRejected || /^user (reject|declin|denied|cancel)/i.test(String(message))
  return fault.kind !== 'declined' || isUsersNo
    ? fault
    : new WalletFault('failed', `${walletName} failed: ${String(message).slice(0, 200)}`)
}

/** Converts an error of a wallet. A WalletFault stays unchanged. */
export function faultOf(error: unknown, walletName: string): WalletFault {
  if (error instanceof WalletFault) return error
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  const detail = typeof message === 'string' ? message.slice(0, 200) : ''
  if (code === userRejected || /reject|declin|denied|cancel/i.test(detail))
    return new WalletFault('declined', `The request was declined in ${walletName}.`)
  // EIP-1474, "resource unavailable". The wallet already has an open request.
  if (code === -32002)
    return new WalletFault('failed', `${walletName} already has an open request. Finish that request first.`)
  return new WalletFault('failed', `${walletName} failed${detail === '' ? '.' : `: ${detail}`}`)
}
