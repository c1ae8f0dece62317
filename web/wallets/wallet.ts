import type { ChainFamily } from '../../core/domain/network.ts'

/** A wallet that this browser has, found by EIP-6963 (EVM) or Wallet Standard (Solana). */
export type Wallet = EvmWallet | SolanaWallet

interface FoundWallet {
  /** The same for the same wallet as long as the page lives. */
  readonly id: string
  readonly name: string
  /** A picture as a `data:` address; undefined where the wallet gives none that may be shown. */
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
  request(asked: { method: string; params?: readonly unknown[] }): Promise<unknown>
}

/** As much as is used of a wallet of the Wallet Standard. @see https://github.com/wallet-standard/wallet-standard */
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
  /** The buyer said no in the wallet. */
  | 'declined'
  /** The wallet is on another network and did not change. */
  | 'wrong_network'
  /** Less in the wallet than the price. */
  | 'too_little'
  /** The wallet can't do what is needed. */
  | 'unfit'
  /** Anything else that a wallet says. */
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

/** Code of EIP-1193 for "the user said no"; Solana's wallets use it too, or say it in words. */
const userRejected = 4001

/**
 * What a wallet threw that was asked to send a transaction. Only the user's own no says that nothing was sent: a wallet also
 * calls "rejected" or "canceled" what a node refused or what took too long, and that may be on its way.
 */
export function sendFaultOf(error: unknown, walletName: string): WalletFault {
  const fault = faultOf(error, walletName)
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  const isUsersNo = code === userRejected || /^user (reject|declin|denied|cancel)/i.test(String(message))
  return fault.kind !== 'declined' || isUsersNo
    ? fault
    : new WalletFault('failed', `${walletName} could not do it: ${String(message).slice(0, 200)}`)
}

/** What a wallet threw, as a fault; a fault stays what it is. */
export function faultOf(error: unknown, walletName: string): WalletFault {
  if (error instanceof WalletFault) return error
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  const said = typeof message === 'string' ? message.slice(0, 200) : ''
  if (code === userRejected || /reject|declin|denied|cancel/i.test(said))
    return new WalletFault('declined', `The request was declined in ${walletName}.`)
  // EIP-1474, "resource unavailable": a question to the user is open already.
  if (code === -32002)
    return new WalletFault('failed', `${walletName} has a question open already. Answer it there first.`)
  return new WalletFault('failed', `${walletName} could not do it${said === '' ? '.' : `: ${said}`}`)
}
