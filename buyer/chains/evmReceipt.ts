import { quantity } from '../../core/evm/quantity.ts'
import { reading, token, topics, wordOf } from '../../core/evm/token.ts'
import { findTransfer, readReceipt } from '../../core/evm/transferProof.ts'
import { addressWord } from '../../core/evm/words.ts'
import type { ReceiptQuery, ReceiptVerdict, SignedPayment } from '../buyer.ts'
import { createJsonRpc, type JsonRpc, unexpected } from './jsonRpc.ts'
import { judgeReceipt, type PaymentState, type ReceiptChain } from './judgeReceipt.ts'

/**
 * Asks the chain about an EIP-3009 payment. Verified means: the named transaction succeeded, and in it the token itself
 * says that our nonce was used and that exactly our amount went from us to the seller, by the proof that sellers' gateways
 * settle by.
 */
export async function verifyEvmReceipt(rpcUrl: string, query: ReceiptQuery): Promise<ReceiptVerdict> {
  const { payment } = query
  const rpc = createJsonRpc(rpcUrl, payment.network)
  const chain: ReceiptChain = {
    transactionName: 'transaction hash',
    isTransaction: (text) => /^0x[0-9a-fA-F]{64}$/.test(text),
    problemOf: (transaction, signal) => problemOf(rpc, payment, transaction, signal),
    stateOf: (signal) => stateOf(rpc, payment, signal),
  }
  return await judgeReceipt(chain, query)
}

/** Empty when the transaction is our payment, undefined when it is not mined yet, else what is wrong with it. */
async function problemOf(
  rpc: JsonRpc,
  payment: SignedPayment,
  transaction: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const receipt = readReceipt(await rpc('eth_getTransactionReceipt', [transaction], signal), transaction)
  if (receipt === undefined) return undefined
  if (receipt.status !== '0x1') return 'the transaction was reverted'
  const { asset, payer, payTo, amount } = payment
  const expected = { asset, payer, payTo, amountAtomic: BigInt(amount), nonce: nonceOf(payment) }
  const isPaid = findTransfer(receipt, expected) !== undefined
  return isPaid ? '' : 'the transaction does not hold this payment'
}

/** The nonce's state first, then the event that names the transaction. */
async function stateOf(rpc: JsonRpc, payment: SignedPayment, signal: AbortSignal): Promise<PaymentState> {
  const { asset, payer } = payment
  const nonce = nonceOf(payment)
  const block = (await rpc('eth_getBlockByNumber', ['latest', false], signal)) as Record<
    string,
    unknown
  > | null
  const number = hexOf(quantity(block?.['number']))
  const blockMs = Number(quantity(block?.['timestamp'])) * 1_000
  // At that very block: unused in a state that is too late for it is unused for ever (EIP-3009: timestamp < validBefore).
  const { method, params } = reading(token.authorizationState(asset, payer, nonce), number)
  const used = wordOf(await rpc(method, params, signal))
  if (used === undefined) throw unexpected(method)
  if (used === 0n) return { charged: blockMs >= payment.validBeforeMs ? 'no' : 'not_yet', transaction: null }
  const uses = {
    address: asset,
    topics: [topics.authorizationUsed, `0x${addressWord(payer)}`, nonce],
    fromBlock: hexOf(payment.blockBound),
    toBlock: 'latest',
  }
  const logs = await rpc('eth_getLogs', [uses], signal)
  for (const log of Array.isArray(logs) ? logs : []) {
    const hash = String((log as { transactionHash?: unknown }).transactionHash)
    if ((await problemOf(rpc, payment, hash, signal)) === '') return { charged: 'yes', transaction: hash }
  }
  return { charged: 'yes', transaction: null }
}

const hexOf = (number: bigint | number): string => `0x${number.toString(16)}`
const nonceOf = (payment: SignedPayment): string =>
  (payment.payload['authorization'] as { nonce: string }).nonce
