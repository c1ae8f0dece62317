import { quantity } from '../../../../core/evm/quantity.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { RpcAnswer } from '../../../../core/rpc/answer.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'

/** What is older than the wanted age by no more than this factor serves while it is read anew. */
const LATE_TIMES = 3

/** The chain as it stands, with what the settling account has to pay fees. */
export interface Head {
  readonly number: number
  /** Seconds since 1970, by the chain's own clock. */
  readonly timestamp: number
  /** Wei a unit of gas, of the newest block. */
  readonly baseFee: bigint
  /** Gas that the transactions of one block may use. */
  readonly blockGas: bigint
  /** Wei on the settling account. */
  readonly balance: bigint
}

/** The newest block, read at most once in `maxAgeMs` however many ask. */
export interface HeadCache {
  /** @throws {RpcUnreachable} {RpcRefused} when it is too old and no node says. */
  current(): Promise<Head>
  /**
   * As known, when that is not too old by a little: it is read anew meanwhile, and nobody waits for that. Undefined when
   * it has to be waited for.
   */
  lately(): Head | undefined
  /** Reads it now. */
  fresh(): Promise<Head>
}

export function createHeadCache(rpc: Rpc, account: string, clock: Clock, maxAgeMs: number): HeadCache {
  let head: Head | undefined
  let readAtMs = 0
  let reading: Promise<Head> | undefined

  const fresh = (): Promise<Head> => {
    reading ??= read(rpc, account)
      .then((fetched) => {
        readAtMs = clock.now()
        return (head = fetched)
      })
      .finally(() => {
        reading = undefined
      })
    return reading
  }
  const isYounger = (ms: number) => Math.abs(clock.now() - readAtMs) < ms
  return {
    fresh,
    current: () => (head !== undefined && isYounger(maxAgeMs) ? Promise.resolve(head) : fresh()),
    lately() {
      if (head === undefined || !isYounger(LATE_TIMES * maxAgeMs)) return undefined
      if (!isYounger(maxAgeMs)) void fresh().catch(() => {})
      return head
    },
  }
}

async function read(rpc: Rpc, account: string): Promise<Head> {
  const [block, balance] = await rpc.batch([
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
    { method: 'eth_getBalance', params: [account, 'latest'] },
  ])
  const { number, timestamp, baseFeePerGas, gasLimit } = resultOf(block) as Record<string, unknown>
  return {
    number: Number(quantity(number)),
    timestamp: Number(quantity(timestamp)),
    // Absent on chains without EIP-1559 fees, which are not supported.
    baseFee: quantity(baseFeePerGas),
    blockGas: quantity(gasLimit),
    balance: quantity(resultOf(balance)),
  }
}

/** @throws {RpcRefused} the node's own refusal. @throws {RpcUnreachable} when the answer is none. */
function resultOf(answer: RpcAnswer | undefined): unknown {
  if (answer?.ok && answer.result !== null) return answer.result
  if (answer?.ok === false) throw answer.error
  throw new RpcUnreachable('the node left out an answer')
}
