import {
  type Address,
  encodeFunctionData,
  type Hex,
  type Log,
  numberToHex,
  parseEventLogs,
  toEventSelector,
} from 'viem'
import type { ReceiptQuery, ReceiptVerdict, SignedPayment } from './buyer.ts'
import { asHex, assertChainId, callToken, tokenAbi } from './evmToken.ts'
import { createJsonRpc, type JsonRpc, RpcFailure } from './jsonRpc.ts'
import { judgeReceipt, type PaymentState, type ReceiptChain } from './judgeReceipt.ts'

const AUTHORIZATION_USED = toEventSelector('AuthorizationUsed(address,bytes32)')

/**
 * Asks the chain about an EIP-3009 payment. Verified means: the named transaction succeeded, and in it the token itself
 * says that our nonce was used and that exactly our amount went from us to the seller. Both events are needed: the
 * transfer alone may be another purchase's, and some tokens do not revert on a used nonce.
 */
export async function verifyEvmReceipt(rpcUrl: string, query: ReceiptQuery): Promise<ReceiptVerdict> {
  const rpc = createJsonRpc(rpcUrl)
  const { payment } = query
  const chain: ReceiptChain = {
    transactionName: 'transaction hash',
    isTransaction: (text) => /^0x[0-9a-fA-F]{64}$/.test(text),
    async problemOf(transaction, signal) {
      await assertChainId(rpc, payment.network, signal)
      return await problemOf(rpc, payment, transaction, signal)
    },
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
  const receipt = (await rpc('eth_getTransactionReceipt', [transaction], signal)) as {
    status?: unknown
    logs?: unknown
    transactionHash?: unknown
  } | null
  if (receipt === null || typeof receipt !== 'object') return undefined
  if (receipt.status !== '0x1') return 'the transaction was reverted'
  if (String(receipt.transactionHash).toLowerCase() !== transaction.toLowerCase()) {
    throw new RpcFailure("The chain's node answered with another transaction.")
  }
  const logs = (Array.isArray(receipt.logs) ? receipt.logs : []) as Log[]
  return hasPayment(logs, payment) ? '' : 'the transaction does not hold this payment'
}

function hasPayment(logs: Log[], payment: SignedPayment): boolean {
  const ours = logs.filter((log) => isSame(log.address, payment.asset) && log.removed !== true)
  const events = parseEventLogs({ abi: tokenAbi, logs: ours, strict: true })
  const isUsed = events.some(
    (e) =>
      e.eventName === 'AuthorizationUsed' &&
      isSame(e.args.authorizer, payment.payer) &&
      isSame(e.args.nonce, nonceOf(payment)),
  )
  const isMoved = events.some(
    (e) =>
      e.eventName === 'Transfer' &&
      isSame(e.args.from, payment.payer) &&
      isSame(e.args.to, payment.payTo) &&
      e.args.value === BigInt(payment.amount),
  )
  return isUsed && isMoved
}

/** The nonce's state first, then the event that names the transaction. */
async function stateOf(rpc: JsonRpc, payment: SignedPayment, signal: AbortSignal): Promise<PaymentState> {
  await assertChainId(rpc, payment.network, signal)
  const args = [payment.payer as Address, nonceOf(payment)] as const
  const data = encodeFunctionData({ abi: tokenAbi, functionName: 'authorizationState', args })
  const block = (await rpc('eth_getBlockByNumber', ['latest', false], signal)) as Record<
    string,
    unknown
  > | null
  const number = asHex(block?.['number'], 'eth_getBlockByNumber')
  const blockMs = Number(BigInt(asHex(block?.['timestamp'], 'eth_getBlockByNumber'))) * 1_000
  // At that very block: unused in a state that is too late for it is unused for ever (EIP-3009: timestamp < validBefore).
  if (BigInt(await callToken(rpc, payment.asset as Address, data, signal, number)) === 0n) {
    return { charged: blockMs >= payment.validBeforeMs ? 'no' : 'not_yet', transaction: null }
  }
  const topics = [AUTHORIZATION_USED, pad(payment.payer), nonceOf(payment)]
  const fromBlock = numberToHex(payment.blockBound)
  const logs = await rpc(
    'eth_getLogs',
    [{ address: payment.asset, topics, fromBlock, toBlock: 'latest' }],
    signal,
  )
  for (const log of Array.isArray(logs) ? logs : []) {
    const hash = String((log as { transactionHash?: unknown }).transactionHash)
    if ((await problemOf(rpc, payment, hash, signal)) === '') return { charged: 'yes', transaction: hash }
  }
  return { charged: 'yes', transaction: null }
}

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()
const pad = (address: string): Hex => `0x${address.slice(2).toLowerCase().padStart(64, '0')}`
const nonceOf = (payment: SignedPayment): Hex => (payment.payload['authorization'] as { nonce: Hex }).nonce
