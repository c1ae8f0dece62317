import { isPermit2Nonce, permit2Proxies, readSettleCall } from './permit2.ts'
import { addressWord, type EvmCall, readTransferEvent, topics, uintWord } from './token.ts'

export interface Receipt {
  readonly status: string
  readonly blockNumber: string
  readonly transactionIndex: string
  readonly transactionHash: string
  readonly logs: readonly LogEntry[]
  /** The transaction's call, which a node's receipt lacks. Without it, no payment by Permit2 can be proved. */
  readonly call?: EvmCall
}

export interface LogEntry {
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
  readonly logIndex: string
  readonly transactionHash: string
  /** The block number as the node writes it, unchecked. */
  readonly blockNumber?: string
  /** True if a reorganization has removed the event. */
  readonly removed?: boolean
}

/**
 * The receipt of this transaction. Undefined if it belongs to another transaction, which some proxies return. Undefined if it names
 * no block, because its depth then cannot be counted, which happens if a node reports a transaction before its block is made.
 * Undefined if it has neither success nor revert, or unreadable events. The caller then requests the receipt again, and no payment
 * fails because of it.
 */
export function readReceipt(result: unknown, transaction: string): Receipt | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const { transactionHash, blockNumber, status, logs } = result as {
    readonly [name in keyof Receipt]?: unknown
  }
  const isThis =
    typeof transactionHash === 'string' && transactionHash.toLowerCase() === transaction.toLowerCase()
  const isInBlock = isIndex(blockNumber)
  const isJudged = status === '0x0' || status === '0x1'
  const isWhole = isThis && isInBlock && isJudged && Array.isArray(logs) && logs.every(isLogEntry)
  return isWhole ? (result as Receipt) : undefined
}

/**
 * Whether a node has this transaction in a block, but returned no readable receipt. Then nothing is known, and the transaction must
 * not count as missing.
 */
export function isUnreadable(result: unknown, transaction: string): boolean {
  const { transactionHash, blockNumber } = (result ?? {}) as Partial<Receipt>
  const isThis = String(transactionHash).toLowerCase() === transaction.toLowerCase()
  return isThis && isIndex(blockNumber) && readReceipt(result, transaction) === undefined
}

/** Whether a node's result is an event with all fields that the gateway reads. */
export function isLogEntry(value: unknown): value is LogEntry {
  if (typeof value !== 'object' || value === null) return false
  const { address, topics, data, logIndex, transactionHash } = value as {
    readonly [name in keyof LogEntry]?: unknown
  }
  const isWellFormed = typeof address === 'string' && typeof data === 'string'
  const isNamed = Array.isArray(topics) && topics.every((topic) => typeof topic === 'string')
  return isWellFormed && isNamed && isIndex(logIndex) && typeof transactionHash === 'string'
}

/** Whether a value is the number of a block, or of an event in a block, as nodes write numbers. */
const isIndex = (value: unknown): value is string =>
  typeof value === 'string' && /^0x[0-9a-f]{1,13}$/i.test(value)

/** The transfer that must be on chain, as it was authorized. */
export interface ExpectedTransfer {
  readonly asset: string
  readonly payer: string
  readonly payTo: string
  readonly amountAtomic: bigint
  /** False if the amount is not known, so that a call of a proxy of Permit2 decides what was charged. True by default. */
  readonly isAmountKnown?: boolean
  /** Nonce of the authorization, which is 32 bytes in hex with 0x, or a decimal number with Permit2. */
  readonly nonce: string
}

/** The transfer that a receipt proves. */
interface ProvedTransfer {
  readonly status: 'settled'
  readonly transaction: string
  /** The log index of AuthorizationUsed, or of the Transfer with Permit2, in decimal. */
  readonly event: string
  readonly block: number
  readonly chargedAtomic: bigint
}

/**
 * Finds the event of a receipt that is the payment. The token emits AuthorizationUsed(payer, nonce), and its next event is
 * Transfer(payer, payTo, amount), in the order of EIP-3009's reference code and of USDC.
 *
 * A successful status proves nothing, because some tokens do not revert on a used nonce. Both events somewhere in a receipt prove
 * nothing either, because a transaction can use several authorizations, each of which is a separate payment.
 *
 * Permit2 emits no event, so {@link Receipt.call} has to name the nonce of a payment by Permit2.
 *
 * @returns undefined if the receipt does not prove the payment
 */
export function findTransfer(receipt: Receipt, expected: ExpectedTransfer): ProvedTransfer | undefined {
  if (receipt.status !== '0x1') return undefined
  if (isPermit2Nonce(expected.nonce)) return findPermit2Transfer(receipt, expected)
  const use = tokenLogs(receipt, expected).find((log, i, logs) => {
    const next = logs[i + 1]
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

/** The events of the payment's token, in their order. */
const tokenLogs = ({ logs }: Receipt, { asset }: ExpectedTransfer): LogEntry[] =>
  logs
    .filter((log) => log.address.toLowerCase() === asset.toLowerCase() && log.removed !== true)
    .sort((a, b) => Number(a.logIndex) - Number(b.logIndex))

/**
 * Finds the Transfer of a payment by Permit2. If the transaction calls the proxy with the payment's nonce, its success proves that a
 * permit with this nonce was used, and the call has the amount. If another contract called the proxy, the transaction's data has to
 * contain nonce and payer, and the proxy's event has to follow the Transfer.
 *
 * The payer can sign several permits with one nonce, so the amount has to be the expected one. A Transfer that directly follows
 * AuthorizationUsed is a payment by EIP-3009, which may be in the ledger too.
 */
function findPermit2Transfer(receipt: Receipt, expected: ExpectedTransfer): ProvedTransfer | undefined {
  const { call } = receipt
  if (call === undefined || !mayUsePermit(call, expected)) return undefined
  const direct = readSettleCall(call)
  const { amountAtomic: knownAtomic, isAmountKnown = true } = expected
  const amountAtomic = isAmountKnown ? knownAtomic : (direct?.amountAtomic ?? knownAtomic)
  const transfer = tokenLogs(receipt, expected).find(
    (log, i, logs) =>
      isTransfer(log, { ...expected, amountAtomic }) &&
      logs[i - 1]?.topics[0]?.toLowerCase() !== topics.authorizationUsed &&
      (direct !== undefined || mayBeByPermit2(log, receipt)),
  )
  if (transfer === undefined) return undefined
  return {
    status: 'settled',
    transaction: receipt.transactionHash,
    event: String(Number(transfer.logIndex)),
    block: Number(receipt.blockNumber),
    chargedAtomic: amountAtomic,
  }
}

const proxies: readonly string[] = Object.values(permit2Proxies)

/**
 * Whether a Transfer may be a payment by Permit2, because an event of a proxy follows it in its transaction. The ledger then counts it
 * by the permit's nonce, so it never counts as a plain transfer or as a refund.
 */
export const mayBeByPermit2 = ({ logIndex }: Pick<LogEntry, 'logIndex'>, { logs }: Receipt): boolean =>
  logs.some((log) => proxies.includes(log.address.toLowerCase()) && Number(log.logIndex) > Number(logIndex))

/** Whether a transaction's call may use the permit of this payer and nonce, directly or through another contract. */
export function mayUsePermit(
  call: EvmCall,
  { payer, nonce }: Pick<ExpectedTransfer, 'payer' | 'nonce'>,
): boolean {
  const direct = readSettleCall(call)
  if (direct !== undefined) return direct.from === payer.toLowerCase() && direct.nonce === nonce
  const data = call.data.toLowerCase()
  return data.includes(uintWord(nonce)) && data.includes(addressWord(payer))
}

/** Whether an event of the token ends the authorization, because it was used or its payer has canceled it. */
export const isEndOf = (log: LogEntry, expected: ExpectedTransfer): boolean =>
  isUse(log, expected) || isAbout(topics.authorizationCanceled, log, expected)

const isUse = (log: LogEntry, expected: ExpectedTransfer): boolean =>
  isAbout(topics.authorizationUsed, log, expected)

/** Whether an event concerns the authorization. Nodes write words in either case. */
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
