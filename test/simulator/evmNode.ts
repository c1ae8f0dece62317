import { parseTransaction } from 'viem/utils'
import { transfersIn } from '../../adapters/chains/evm/check/transferCalls.ts'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../core/domain/payment.ts'
import { keccak256 } from '../../core/evm/hex.ts'
import { addressWord, topics, uintWord } from '../../core/evm/token.ts'
import { type CallNode, NotAnswered } from '../../core/rpc/post.ts'
import { testAsset, testNetwork, testPayTo } from '../helpers/settler.ts'
import type { Authorisation, Cancelled, Chain, Landed, Receipt, Taken, Transaction, View } from './chain.ts'
import type { Scheduler } from './scheduler.ts'
import type { ChainFaults } from './settler.ts'

export interface EvmNodeDeps {
  readonly chain: Chain
  readonly scheduler: Scheduler
  readonly faults: ChainFaults
  /** The signers: broadcasts of others are ignored. */
  readonly account: string
  /** What every buyer has signed, by key. */
  readonly signed: ReadonlyMap<string, Authorisation>
  /** A transaction of these payments has come, and its sender has not heard so yet. */
  onBroadcast(hash: string, keys: readonly string[]): void
}

/** A node of the simulated chain, as JSON-RPC over HTTP has it: as much of it as a settler with a key of its own asks for. */
export interface EvmNode {
  /** Responds to its callers: late, of some blocks ago, or never, as the seed says. */
  readonly ask: CallNode
  /** How often any node was queried. */
  readonly requests: number
  /** The nonce in signed bytes. */
  numberOf(bytes: string): number
}

interface Question {
  readonly id: number
  readonly method: string
  readonly params: readonly unknown[]
}

type Answer = { readonly result: unknown } | { readonly error: { code: number; message: string } }

const BASE_FEE = 10_000_000n
const keyPrefix = evmPaymentKeyPrefix(testNetwork, testAsset)
const chainId = Number(testNetwork.slice('eip155:'.length))

export function createEvmNode(parts: EvmNodeDeps): EvmNode {
  const { chain, scheduler, faults, account, signed } = parts
  const parsed = new Map<string, Transaction>()
  let requestCount = 0

  const fails = (probability: number) => faults.isFaulty && scheduler.chance(probability)
  const keyOf = (payer: string, nonce: string) => evmPaymentKey(keyPrefix, payer, nonce)

  function transactionOf(bytes: string): Transaction {
    let transaction = parsed.get(bytes)
    if (transaction !== undefined) return transaction
    const hash = `0x${Buffer.from(keccak256(Buffer.from(bytes.slice(2), 'hex'))).toString('hex')}`
    const { nonce = 0 } = parseTransaction(bytes as `0x${string}`)
    const uses = transfersIn(bytes).map(({ from, nonce: of }) => signed.get(keyOf(from, of))!)
    transaction = { hash, uses, from: { account, nonce } }
    parsed.set(bytes, transaction)
    return transaction
  }

  function broadcast(bytes: string): Answer {
    const transaction = transactionOf(bytes)
    const taken = chain.send(transaction)
    const keys = transaction.uses.map(({ key }) => key)
    parts.onBroadcast(transaction.hash, keys)
    return taken === 'yes' ? { result: transaction.hash } : { error: { code: -32000, message: words[taken] } }
  }

  const isUsed = ({ landed, cancelled }: View, key: string) => landed.has(key) || cancelled.has(key)

  /** Calls of the token, and the one by which Multicall3 is looked for. */
  function call(view: View, data: string): Answer {
    const word = (i: number) => data.slice(10 + 64 * i, 74 + 64 * i)
    const address = (i: number) => `0x${word(i).slice(24)}`
    switch (data.slice(0, 10)) {
      case selectors.aggregate3:
        return { result: `0x${uintWord('32')}${uintWord('0')}` }
      case selectors.balanceOf:
        return { result: `0x${uintWord(String(view.balanceOf(address(0))))}` }
      case selectors.authorizationState:
        return { result: `0x${uintWord(isUsed(view, keyOf(address(0), `0x${word(1)}`)) ? '1' : '0')}` }
      case selectors.transfer: {
        if (isUsed(view, keyOf(address(0), `0x${word(5)}`))) return reverted('authorization is used')
        if (view.balanceOf(address(0)) < Number(`0x${word(2)}`)) return reverted('transfer exceeds balance')
        if (view.timestampMs >= Number(`0x${word(4)}`) * 1_000) return reverted('authorization is expired')
        return { result: '0x' }
      }
      default:
        return reverted(`nothing takes ${data.slice(0, 10)}`)
    }
  }

  function respond(view: View, { method, params }: Question): Answer {
    switch (method) {
      case 'eth_chainId':
        return { result: hex(chainId) }
      case 'eth_blockNumber':
        return { result: hex(view.number) }
      case 'eth_getBlockByNumber': {
        const number = params[0] === 'latest' ? view.number : Number(params[0])
        const timestamp = hex(chain.timestampOf(number) / 1_000)
        return {
          result: {
            number: hex(number),
            timestamp,
            baseFeePerGas: `0x${BASE_FEE.toString(16)}`,
            gasLimit: hex(60_000_000),
          },
        }
      }
      case 'eth_getBalance':
        return { result: '0xde0b6b3a7640000' }
      case 'eth_getCode':
        return { result: String(params[0]).toLowerCase() === testAsset.toLowerCase() ? '0x60' : '0x' }
      case 'eth_getTransactionCount': {
        const mined = view.nextOf(account)
        return { result: hex(params[1] === 'pending' ? chain.pendingOf(account, mined) : mined) }
      }
      case 'eth_call':
        return call(view, (params[0] as { data: string }).data)
      case 'eth_sendRawTransaction':
        return broadcast(String(params[0]))
      case 'eth_getTransactionReceipt': {
        const receipt = view.receipts.get(String(params[0]))
        return { result: receipt === undefined ? null : receiptOf(receipt) }
      }
      case 'eth_getLogs':
        return { result: logs(view, params[0] as LogFilter) }
      default:
        return { error: { code: -32601, message: `the method ${method} does not exist` } }
    }
  }

  function logs({ landed, cancelled }: View, { fromBlock, toBlock, topics: wanted }: LogFilter): unknown[] {
    const [, payers, nonces] = wanted
    const isWanted = ({ block, payer, nonce }: Cancelled) =>
      block >= Number(fromBlock) &&
      block <= Number(toBlock) &&
      nonce !== undefined &&
      payers.includes(topicOf(payer)) &&
      nonces.includes(nonce)
    return [
      ...[...landed.values()].filter(isWanted).map(usedLog),
      ...[...cancelled.values()].filter(isWanted).map(cancelledLog),
    ]
  }

  return {
    get requests() {
      return requestCount
    },
    numberOf: (bytes) => transactionOf(bytes).from!.nonce,
    async ask({ body, timeoutMs }) {
      requestCount++
      await scheduler.wait(scheduler.between(10, 40))
      if (fails(0.02)) throw new NotAnswered('failed', 'it cannot be reached')
      if (fails(0.01)) {
        await scheduler.wait(timeoutMs)
        throw new NotAnswered('late', 'no answer in time')
      }
      const view = chain.view(fails(0.1) ? scheduler.between(1, 4) : 0)
      const questions = JSON.parse(body) as Question | Question[]
      const responseOf = (question: Question) => ({
        jsonrpc: '2.0',
        id: question.id,
        ...respond(view, question),
      })
      const responses = Array.isArray(questions) ? questions.map(responseOf) : responseOf(questions)
      await scheduler.wait(scheduler.between(10, 40))
      if (fails(0.03)) throw new NotAnswered(scheduler.pick(['failed', 'broken']), 'ECONNRESET')
      return { status: 200, text: JSON.stringify(responses) }
    },
  }
}

/** With every topic a list, as the settler asks. */
interface LogFilter {
  readonly fromBlock: string
  readonly toBlock: string
  readonly topics: readonly [readonly string[], readonly string[], readonly string[]]
}

const selectors = {
  aggregate3: '0x82ad56cb',
  balanceOf: '0x70a08231',
  authorizationState: '0xe94a0102',
  transfer: '0xe3ee160e',
}

const words: Record<Exclude<Taken, 'yes'>, string> = {
  mined: 'already known',
  nonce_used: 'nonce too low',
  contested: 'replacement transaction underpriced',
}

const hex = (value: number): string => `0x${value.toString(16)}`
const topicOf = (address: string): string => `0x${addressWord(address)}`
const reverted = (why: string): Answer => ({ error: { code: 3, message: `execution reverted: ${why}` } })

const nonceLog = (topic: string, { payer, nonce, event, hash }: Cancelled) => ({
  address: testAsset,
  topics: [topic, topicOf(payer), nonce],
  data: '0x',
  logIndex: hex(Number(event)),
  transactionHash: hash,
})
const usedLog = (one: Landed) => nonceLog(topics.authorizationUsed, one)
const cancelledLog = (one: Cancelled) => nonceLog(topics.authorizationCanceled, one)

function receiptOf({ transaction, block, moved, cancelled }: Receipt) {
  const { hash, uses } = transaction
  const ofMoved = [...moved.values()].flatMap((one) => [
    usedLog(one),
    {
      address: testAsset,
      topics: [topics.transfer, topicOf(one.payer), topicOf(testPayTo)],
      data: `0x${uintWord(String(one.value))}`,
      logIndex: hex(Number(one.event) + 1),
      transactionHash: hash,
    },
  ])
  const logs = cancelled === undefined ? ofMoved : [cancelledLog(cancelled)]
  // A call by itself reverts the whole; one of several does not.
  const isReverted = uses.length === 1 && moved.size === 0
  return {
    ...{ transactionHash: hash, transactionIndex: '0x0', blockNumber: hex(block), logs },
    ...{ status: isReverted ? '0x0' : '0x1', gasUsed: hex(100_000), effectiveGasPrice: hex(11_000_000) },
  }
}
