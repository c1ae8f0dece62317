import type { PaymentIdentity } from '../domain/payment.ts'
import type { Settled } from '../ports/chains/settler.ts'
import { topics } from './token.ts'
import { readTransferEvent } from './transferEvent.ts'
import { addressWord } from './words.ts'

export interface Receipt {
  readonly status: string
  readonly blockNumber: string
  readonly transactionIndex: string
  readonly transactionHash: string
  readonly logs: readonly LogEntry[]
}

export interface LogEntry {
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
  readonly logIndex: string
  readonly transactionHash: string
  /** The chain took it back. */
  readonly removed?: boolean
}

/**
 * The receipt of this very transaction, or undefined: proxies have been seen to answer with another one's. Nodes that
 * tell of a transaction before its block is made name no block, and a depth can't be counted from none.
 */
export function readReceipt(result: unknown, transaction: string): Receipt | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const { transactionHash, blockNumber, logs } = result as { readonly [name in keyof Receipt]?: unknown }
  const isThis =
    typeof transactionHash === 'string' && transactionHash.toLowerCase() === transaction.toLowerCase()
  const isInBlock = typeof blockNumber === 'string' && /^0x[0-9a-f]+$/i.test(blockNumber)
  return isThis && isInBlock && Array.isArray(logs) ? (result as Receipt) : undefined
}

/** The transfer that has to be on chain; a payment's identity is one. */
export type ExpectedTransfer = Pick<PaymentIdentity, 'asset' | 'payer' | 'payTo' | 'amountAtomic' | 'nonce'>

/**
 * Which event of a receipt is the payment: the token says AuthorizationUsed(payer, nonce), and the very next thing it says
 * is Transfer(payer, payTo, amount), the order of EIP-3009's reference code and of USDC.
 *
 * A successful status proves nothing: some tokens do not revert on a used nonce. Nor do the two events anywhere in one
 * receipt: a transaction can use several authorisations, and each is its own payment.
 *
 * @returns the settled payment, its event the log index of AuthorizationUsed; undefined when the receipt does not prove it
 */
export function findTransfer(receipt: Receipt, expected: ExpectedTransfer): Settled | undefined {
  if (receipt.status !== '0x1') return undefined
  const asset = expected.asset.toLowerCase()
  const said = receipt.logs
    .filter((log) => log.address.toLowerCase() === asset && log.removed !== true)
    .sort((a, b) => Number(a.logIndex) - Number(b.logIndex))
  const use = said.find((log, i) => {
    const next = said[i + 1]
    return isUse(log, expected) && next !== undefined && isTransfer(next, expected)
  })
  if (use === undefined) return undefined
  return {
    status: 'settled',
    transaction: receipt.transactionHash,
    event: String(Number(use.logIndex)),
    block: Number(receipt.blockNumber),
    chargedAtomic: expected.amountAtomic,
  }
}

const isUse = (log: LogEntry, expected: ExpectedTransfer): boolean =>
  log.topics[0] === topics.authorizationUsed &&
  log.topics[1]?.slice(2) === addressWord(expected.payer) &&
  log.topics[2]?.toLowerCase() === expected.nonce.toLowerCase()

const isTransfer = (log: LogEntry, expected: ExpectedTransfer): boolean => {
  const moved = readTransferEvent(log)
  return (
    moved?.from === addressWord(expected.payer) &&
    moved.to === addressWord(expected.payTo) &&
    moved.amountAtomic === expected.amountAtomic
  )
}
