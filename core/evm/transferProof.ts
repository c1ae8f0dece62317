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
 * tell of a transaction before its block is made name no block, and a depth can't be counted from none. One that says neither
 * that it succeeded nor that it was reverted, or whose events can't be read, says nothing: it is asked for again, and nobody's
 * payment fails by it.
 */
export function readReceipt(result: unknown, transaction: string): Receipt | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const { transactionHash, blockNumber, status, logs } = result as {
    readonly [name in keyof Receipt]?: unknown
  }
  const isThis =
    typeof transactionHash === 'string' && transactionHash.toLowerCase() === transaction.toLowerCase()
  const isInBlock = isPlace(blockNumber)
  const isJudged = status === '0x0' || status === '0x1'
  const isWhole = isThis && isInBlock && isJudged && Array.isArray(logs) && logs.every(isLogEntry)
  return isWhole ? (result as Receipt) : undefined
}

/** Whether a node has this transaction in a block, and what it says of it is no receipt: nothing is known, not even that it is missing. */
export function isUnreadable(result: unknown, transaction: string): boolean {
  const { transactionHash, blockNumber } = (result ?? {}) as Partial<Receipt>
  const isThis = String(transactionHash).toLowerCase() === transaction.toLowerCase()
  return isThis && isPlace(blockNumber) && readReceipt(result, transaction) === undefined
}

/** Whether a node's answer is an event: with all that is read of one. */
export function isLogEntry(value: unknown): value is LogEntry {
  if (typeof value !== 'object' || value === null) return false
  const { address, topics, data, logIndex, transactionHash } = value as {
    readonly [name in keyof LogEntry]?: unknown
  }
  const isSaid = typeof address === 'string' && typeof data === 'string'
  const isNamed = Array.isArray(topics) && topics.every((topic) => typeof topic === 'string')
  return isSaid && isNamed && isPlace(logIndex) && typeof transactionHash === 'string'
}

/** A number of a block, or of an event in it, as nodes write it: one that can be counted with. */
const isPlace = (value: unknown): value is string =>
  typeof value === 'string' && /^0x[0-9a-f]{1,13}$/i.test(value)

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

/** Whether an event is that of its token that ends the authorisation: by its use, or by its payer's taking it back. */
export const isEndOf = (log: LogEntry, expected: ExpectedTransfer): boolean =>
  isUse(log, expected) || isAbout(topics.authorizationCanceled, log, expected)

const isUse = (log: LogEntry, expected: ExpectedTransfer): boolean =>
  isAbout(topics.authorizationUsed, log, expected)

/** Nodes write words in either case. */
const isAbout = (name: string, log: LogEntry, { payer, nonce }: ExpectedTransfer): boolean =>
  log.topics[0]?.toLowerCase() === name &&
  log.topics[1]?.slice(2).toLowerCase() === addressWord(payer) &&
  log.topics[2]?.toLowerCase() === nonce.toLowerCase()

const isTransfer = (log: LogEntry, expected: ExpectedTransfer): boolean => {
  const moved = readTransferEvent(log)
  return (
    moved?.from === addressWord(expected.payer) &&
    moved.to === addressWord(expected.payTo) &&
    moved.amountAtomic === expected.amountAtomic
  )
}
