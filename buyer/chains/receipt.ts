import { setTimeout as wait } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { builtInAssets } from '../../core/domain/asset.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isPermit2Nonce, isUsedIn, permit2 } from '../../core/evm/permit2.ts'
import { addressWord, type EvmCall, reading, token, topics, wordOf } from '../../core/evm/token.ts'
import { type ExpectedTransfer, findTransfer, readReceipt } from '../../core/evm/transferProof.ts'
import { quantity, type TokenBalance, tokenBalances } from '../../core/rpc/post.ts'
import { readMessage } from '../../core/solana/message.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccount.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction, sameBytes } from '../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { ReceiptQuery, ReceiptVerdict, SignedPayment } from '../buyer.ts'
import type { Charged } from '../payReport.ts'
import { createJsonRpc, type JsonRpc, publicRpcUrl, unexpected } from './jsonRpc.ts'

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 2_000

/** The state of a payment. An earlier run may have sent the payment. */
export interface PaymentState {
  readonly charged: Charged
  /** In atomic units, as decimal digits. Null if no transaction was found. */
  readonly chargedAmount: string | null
  readonly transaction: string | null
}

/** A payment that a transaction contains. */
interface FoundPayment {
  /** In atomic units, as decimal digits. */
  readonly chargedAmount: string
}

/** The chain-specific part of a verdict. */
export interface ReceiptChain {
  /** The chain's word for a transaction id, such as `transaction hash`. */
  readonly transactionName: string
  isTransaction(text: string): boolean
  /** The payment if the transaction is this payment. Undefined if it is not on chain yet. Otherwise a sentence about the difference. */
  paymentIn(transaction: string, signal: AbortSignal): Promise<FoundPayment | string | undefined>
  stateOf(signal: AbortSignal): Promise<PaymentState>
}

/**
 * Judges a payment. If the seller named a transaction, the payment is verified if that transaction is the payment. Otherwise it is
 * verified if its transaction was found. If the seller charged nothing, it is verified if the payment was not used. Waits until the
 * signal ends for a transaction that is not on chain yet. Never throws, because a seller may claim anything.
 */
export async function judgeReceipt(
  chain: ReceiptChain,
  { transaction, amount = null, signal }: Pick<ReceiptQuery, 'transaction' | 'amount' | 'signal'>,
): Promise<ReceiptVerdict> {
  if (transaction === null)
    return amount === '0' ? await judgeNoCharge(chain, signal) : await pollReceipt(chain, amount, signal)
  if (!chain.isTransaction(transaction))
    return await disputed(chain, `the seller named something that is not a ${chain.transactionName}`)
  let isMissing = false
  const { value, failure } = await pollUntil(signal, async () => {
    const found = await chain.paymentIn(transaction, signal)
    isMissing = found === undefined
    return found
  })
  if (typeof value === 'object') return verified({ charged: 'yes', transaction, ...value }, amount)
  const silence = isMissing ? 'the chain does not have the transaction' : inWords.unknown
  return await disputed(chain, value ?? failure ?? silence)
}

/** The verdict on a payment whose transaction was found. The seller must have named the charged amount, if it named one. */
function verified(state: PaymentState, named: string | null): ReceiptVerdict {
  const { chargedAmount } = state
  if (named === null || named === chargedAmount) return { ...state, isVerified: true, problem: '' }
  const problem = `the chain shows a charge of ${chargedAmount} atomic units, but the seller names ${named}`
  return { ...state, isVerified: false, problem }
}

/** Checks once that a payment for which the seller charged nothing was not used. */
async function judgeNoCharge(chain: ReceiptChain, signal: AbortSignal): Promise<ReceiptVerdict> {
  const { value: state, failure } = await pollUntil(signal, () => chain.stateOf(signal))
  if (state === undefined) {
    const problem = failure ?? inWords.unknown
    return { isVerified: false, charged: 'unknown', chargedAmount: null, transaction: null, problem }
  }
  if (state.charged === 'yes')
    return {
      ...state,
      isVerified: false,
      problem: 'the seller says that it charged nothing, but the payment was used',
    }
  return { ...state, chargedAmount: '0', isVerified: true, problem: '' }
}

/** Waits for the payment and its transaction. An earlier run may have sent the payment. */
async function pollReceipt(
  chain: ReceiptChain,
  named: string | null,
  signal: AbortSignal,
): Promise<ReceiptVerdict> {
  let charged = 'unknown' as Charged
  const { value, failure } = await pollUntil(signal, async () => {
    const state = await chain.stateOf(signal)
    charged = state.charged
    const isOpen = charged === 'not_yet' || (charged === 'yes' && state.transaction === null)
    return isOpen ? undefined : state
  })
  if (value !== undefined && value.transaction !== null) return verified(value, named)
  const problem = failure ?? inWords[charged]
  return { isVerified: false, charged, chargedAmount: null, transaction: null, problem }
}

const inWords: Readonly<Record<Charged, string>> = {
  no: 'the payment has expired unused',
  yes: 'the payment was used, but its transaction was not found',
  not_yet: 'the chain does not have the payment',
  unknown: 'the chain did not respond in time',
}

/** Checks once, with a time limit of its own. The caller's time may be used up, but the user needs to know whether money moved. */
async function disputed(chain: ReceiptChain, problem: string): Promise<ReceiptVerdict> {
  try {
    const state = await chain.stateOf(AbortSignal.timeout(5_000))
    return { ...state, isVerified: false, problem }
  } catch {
    return { isVerified: false, charged: 'unknown', chargedAmount: null, transaction: null, problem }
  }
}

interface Polled<T> {
  /** The value that was found. Undefined if the time ended first. */
  readonly value: T | undefined
  /** Message of the last failure, if the last attempt failed. */
  readonly failure: string | undefined
}

/**
 * Polls at growing intervals (0.2 s to 2 s) until there is a value or the signal ends. An attempt that throws counts as an attempt
 * without a value, because nodes fail briefly and recover. Never throws.
 */
async function pollUntil<T>(signal: AbortSignal, poll: () => Promise<T | undefined>): Promise<Polled<T>> {
  let failure: string | undefined
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    try {
      const value = await poll()
      failure = undefined
      if (value !== undefined) return { value, failure }
    } catch (error) {
      // If the time limit ended the attempt, the failure proves nothing about the node.
      if (!signal.aborted) failure = (error as Error).message
    }
    try {
      await wait(waitMs, undefined, { signal })
    } catch {
      return { value: undefined, failure }
    }
  }
}

/**
 * Verifies an EVM payment on chain. The named transaction must have succeeded, and the token itself must report in it that the amount
 * moved from buyer to seller. For EIP-3009, the token must also report that this nonce was used. For Permit2, which reports nothing,
 * the transaction's call must name this nonce. Gateways settle by the same proof.
 */
export async function verifyEvmReceipt(rpcUrl: string, query: ReceiptQuery): Promise<ReceiptVerdict> {
  const { payment } = query
  const rpc = createJsonRpc(rpcUrl, payment.network)
  const expected = expectedOf(payment, query.amount ?? payment.amount)
  const chain: ReceiptChain = {
    transactionName: 'transaction hash',
    isTransaction: (text) => /^0x[0-9a-fA-F]{64}$/.test(text),
    paymentIn: (transaction, signal) => evmPaymentIn(rpc, expected, transaction, signal),
    stateOf: (signal) => evmStateOf(rpc, payment, expected, signal),
  }
  return await judgeReceipt(chain, query)
}

/** @param amount what must have moved, in atomic units. A call of the proxy names the amount itself */
function expectedOf({ asset, payer, payTo, payload }: SignedPayment, amount: string): ExpectedTransfer {
  const { authorization, permit2Authorization } = payload as Partial<Record<string, { nonce: string }>>
  const { nonce } = (permit2Authorization ?? authorization)!
  return { asset, payer, payTo, amountAtomic: BigInt(amount), isAmountKnown: false, nonce }
}

/** The payment if the transaction contains it. Undefined if it is not mined yet. Otherwise a sentence about the difference. */
async function evmPaymentIn(
  rpc: JsonRpc,
  expected: ExpectedTransfer,
  transaction: string,
  signal: AbortSignal,
): Promise<FoundPayment | string | undefined> {
  const receipt = readReceipt(await rpc('eth_getTransactionReceipt', [transaction], signal), transaction)
  if (receipt === undefined) return undefined
  if (receipt.status !== '0x1') return 'the transaction was reverted'
  const call = isPermit2Nonce(expected.nonce) ? await readCall(rpc, transaction, signal) : undefined
  const proved = findTransfer(call === undefined ? receipt : { ...receipt, call }, expected)
  return proved === undefined
    ? 'the transaction does not contain this payment'
    : { chargedAmount: proved.chargedAtomic.toString() }
}

/** The call of a transaction that is on chain. @throws {RpcUnreachable} */
async function readCall(rpc: JsonRpc, transaction: string, signal: AbortSignal): Promise<EvmCall> {
  const method = 'eth_getTransactionByHash'
  const { to, input, hash } = ((await rpc(method, [transaction], signal)) ?? {}) as Record<string, unknown>
  const isThis = typeof hash === 'string' && hash.toLowerCase() === transaction.toLowerCase()
  if (!isThis || typeof to !== 'string' || typeof input !== 'string') throw unexpected(method)
  return { to, data: input }
}

/** Reads the nonce's state, and then the event that names the transaction. */
async function evmStateOf(
  rpc: JsonRpc,
  payment: SignedPayment,
  expected: ExpectedTransfer,
  signal: AbortSignal,
): Promise<PaymentState> {
  const { asset, payer, payTo, nonce } = expected
  const isByPermit2 = isPermit2Nonce(nonce)
  const block = (await rpc('eth_getBlockByNumber', ['latest', false], signal)) as Record<
    string,
    unknown
  > | null
  const number = hexOf(quantity(block?.['number']))
  const blockMs = Number(quantity(block?.['timestamp'])) * 1_000
  // The state is that of this block. If the payment has expired by then and its nonce is unused, the nonce stays unused (EIP-3009:
  // timestamp < validBefore).
  const { method, params } = reading(
    isByPermit2 ? permit2.nonceBitmap(payer, nonce) : token.authorizationState(asset, payer, nonce),
    number,
  )
  const word = wordOf(await rpc(method, params, signal))
  if (word === undefined) throw unexpected(method)
  const isUsed = isByPermit2 ? isUsedIn(word, nonce) : word !== 0n
  if (!isUsed) {
    const charged = blockMs >= payment.validBeforeMs ? 'no' : 'not_yet'
    return { charged, chargedAmount: null, transaction: null }
  }
  // Permit2 reports no use of a nonce, so the search is for the token's transfers from payer to payee.
  const events = isByPermit2
    ? [topics.transfer, `0x${addressWord(payer)}`, `0x${addressWord(payTo)}`]
    : [topics.authorizationUsed, `0x${addressWord(payer)}`, nonce]
  const filter = { address: asset, topics: events, fromBlock: hexOf(payment.blockBound), toBlock: 'latest' }
  const logs = await rpc('eth_getLogs', [filter], signal)
  for (const log of Array.isArray(logs) ? logs : []) {
    const transaction = String((log as { transactionHash?: unknown }).transactionHash)
    const found = await evmPaymentIn(rpc, expected, transaction, signal)
    if (typeof found === 'object') return { charged: 'yes', transaction, ...found }
  }
  return { charged: 'yes', chargedAmount: null, transaction: null }
}

const hexOf = (number: bigint | number): string => `0x${number.toString(16)}`

/**
 * Checks on the payment's own chain whether it was paid exactly as signed. Needs no key, so that a later run can check again.
 *
 * @param rpcUrl if absent, the network's public node
 */
export async function verifyReceipt(query: ReceiptQuery, rpcUrl?: string): Promise<ReceiptVerdict> {
  const url = rpcUrl ?? publicRpcUrl(query.payment.network)
  if (url === undefined) {
    const problem = `no default node is known for ${query.payment.network}, so set a node with --rpc`
    return { isVerified: false, charged: 'unknown', chargedAmount: null, transaction: null, problem }
  }
  const verify = familyOf(query.payment.network) === 'solana' ? verifySolanaReceipt : verifyEvmReceipt
  return await verify(url, query)
}

/** Maximum transactions of the account that are listed. A node returns no more at once. */
const LIST_LIMIT = 1_000
/**
 * How many blocks the server that lists transactions may be behind the server that reports the height. They take about a minute.
 */
const LAG_BLOCKS = 150
/** Maximum time from the signing of a payment to its estimated end, in ms, with a margin for clock differences. */
const SEARCH_WINDOW_MS = 300_000

/**
 * Verifies a Solana payment on chain. The named transaction must be on chain without an error, its message must equal the signed
 * message byte for byte, and the token balances of buyer and payee must have changed by exactly the amount.
 */
async function verifySolanaReceipt(rpcUrl: string, query: ReceiptQuery): Promise<ReceiptVerdict> {
  const { payment } = query
  const rpc = createJsonRpc(rpcUrl, payment.network)
  const chain: ReceiptChain = {
    transactionName: 'transaction signature',
    isTransaction: isSignature,
    paymentIn: (transaction, signal) => solanaPaymentIn(rpc, payment, transaction, signal),
    stateOf: (signal) => solanaStateOf(rpc, payment, signal),
  }
  return await judgeReceipt(chain, query)
}

/** The payment if the transaction is this payment. Undefined if it is not confirmed yet. Otherwise a sentence about the difference. */
async function solanaPaymentIn(
  rpc: JsonRpc,
  payment: SignedPayment,
  transaction: string,
  signal: AbortSignal,
): Promise<FoundPayment | string | undefined> {
  const landed = await readLanded(rpc, transaction, signal)
  if (landed === undefined) return undefined
  if (!sameBytes(landed.message, messageOf(payment))) return 'the transaction is not the one that was signed'
  if (landed.hasFailed) return 'the transaction failed on chain'
  const { source, destination } = accountsOf(payment)
  const amount = BigInt(payment.amount)
  const hasMoved =
    landed.deltaOf(destination, payment.asset) === amount && landed.deltaOf(source, payment.asset) === -amount
  return hasMoved ? { chargedAmount: payment.amount } : 'the balances did not move by the amount'
}

async function solanaStateOf(
  rpc: JsonRpc,
  payment: SignedPayment,
  signal: AbortSignal,
): Promise<PaymentState> {
  // The height is read before the list. If that height is past the payment's last possible height, and the list lacks the payment,
  // the payment never lands.
  const height = await rpc('getBlockHeight', [{ commitment: 'confirmed' }], signal)
  const { source } = accountsOf(payment)
  const config = { limit: LIST_LIMIT, commitment: 'confirmed' }
  const list = await rpc('getSignaturesForAddress', [source, config], signal)
  if (!Array.isArray(list)) throw unexpected('getSignaturesForAddress')
  const ours = messageOf(payment)
  for (const entry of list as { signature?: unknown; blockTime?: unknown }[]) {
    const signature = String(entry.signature)
    if (!isSignature(signature) || isTooOld(entry.blockTime, payment)) continue
    const landed = await readLanded(rpc, signature, signal)
    if (landed === undefined || !sameBytes(landed.message, ours)) continue
    const found = await solanaPaymentIn(rpc, payment, signature, signal)
    if (typeof found === 'object') return { charged: 'yes', transaction: signature, ...found }
    if (landed.hasFailed) return { charged: 'no', chargedAmount: null, transaction: null }
  }
  const hasExpired = typeof height === 'number' && height > payment.blockBound + LAG_BLOCKS
  if (!hasExpired) return { charged: 'not_yet', chargedAmount: null, transaction: null }
  // The list is full, so newer transactions may have pushed the payment out of the list, because any account can send dust to this
  // account.
  return {
    charged: list.length < LIST_LIMIT ? 'no' : 'unknown',
    chargedAmount: null,
    transaction: null,
  }
}

/** Whether a block is older than the payment. Block times are in seconds and may be missing. */
const isTooOld = (blockTime: unknown, payment: SignedPayment): boolean =>
  typeof blockTime === 'number' && blockTime * 1_000 < payment.validBeforeMs - SEARCH_WINDOW_MS

function accountsOf(payment: SignedPayment): { source: string; destination: string } {
  const asset = builtInAssets.find((a) => a.network === payment.network && a.address === payment.asset)
  if (asset === undefined) throw new Error(`The payment's token ${payment.asset} is not known`)
  return { source: tokenAccountOf(payment.payer, asset), destination: tokenAccountOf(payment.payTo, asset) }
}

function messageOf(payment: SignedPayment): Uint8Array {
  const wire = readWireTransaction(Buffer.from(String(payment.payload['transaction']), 'base64'))
  if (wire === undefined) throw new Error('The payment contains no transaction')
  return wire.message
}

function isSignature(text: string): boolean {
  try {
    return text.length <= 90 && base58.decode(text).length === 64
  } catch {
    return false
  }
}

/** The parts of a confirmed transaction that a receipt needs. */
interface Landed {
  readonly message: Uint8Array
  readonly hasFailed: boolean
  /** Token balance after the transaction minus the balance before it. */
  deltaOf(account: string, mint: string): bigint
}

/** Reads a transaction at `confirmed`. Undefined if the node does not have it yet. @throws {RpcUnreachable} */
async function readLanded(rpc: JsonRpc, signature: string, signal: AbortSignal): Promise<Landed | undefined> {
  const config = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
  const response = (await rpc('getTransaction', [signature, config], signal)) as {
    transaction?: unknown
    meta?: {
      err?: unknown
      preTokenBalances?: readonly TokenBalance[] | null
      postTokenBalances?: readonly TokenBalance[] | null
    }
  } | null
  if (response === null) return undefined
  const text = Array.isArray(response.transaction) ? response.transaction[0] : undefined
  const bytes = typeof text === 'string' ? decodeStrictBase64(text, MAX_TRANSACTION_BYTES) : undefined
  const wire = bytes === undefined ? undefined : readWireTransaction(bytes)
  if (wire === undefined || typeof response.meta !== 'object' || response.meta === null)
    throw unexpected('getTransaction')
  const { message } = wire
  const { err, preTokenBalances, postTokenBalances } = response.meta
  return {
    message,
    hasFailed: err !== null,
    deltaOf: (account, mint) => {
      const keys = (readMessage(message)?.keys ?? []).map((key) => base58.encode(key))
      const [after, before] = [postTokenBalances, preTokenBalances].map(
        (list) => tokenBalances(list, keys, mint).get(account) ?? 0n,
      )
      return after! - before!
    },
  }
}
