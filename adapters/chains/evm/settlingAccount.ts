import { privateKeyToAccount } from 'viem/accounts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { keccak256 } from '../../../core/evm/keccak.ts'
import type { Log } from '../../../core/ports/log.ts'
import { broadcast } from './broadcast.ts'
import type { Fees } from './fees.ts'
import type { Hex } from './hex.ts'
import { createNonceQueue } from './nonceQueue.ts'
import type { EvmCall } from './payCall.ts'
import { quantity } from './quantity.ts'
import type { Rpc } from './rpc.ts'
import { RpcUnreachable } from './rpcError.ts'

/** No account has sent as many. A node that says so is broken, and believing it would leave a gap that nothing closes. */
const mostTransactions = 2 ** 32

export interface SettlingAccountOptions {
  readonly network: NetworkId
  readonly privateKey: string
  readonly rpc: Rpc
  readonly maxGas: number
  readonly log: Log
  /** Fees for a transaction that only uses up a nonce; undefined while they are above the cap. */
  readonly currentFees: () => Promise<Fees | undefined>
}

/**
 * The key that pays the fees, and its transactions that are on their way. Account nonces have to be used without a gap:
 * a transaction that never arrives holds up every later one, so its bytes, or an empty transaction once they can do no
 * good any more, are sent until its nonce is used.
 */
export interface SettlingAccount {
  readonly address: string
  /** `evm:<network>:<address>`, the name of the settler in stored attempts. */
  readonly id: string
  /** Transactions signed and not known to be mined. */
  readonly inFlight: number
  /** Signs with the next nonce and hands the attempt to `store`; undefined, and the nonce free again, when it says no. */
  sign(
    call: EvmCall,
    fees: Fees,
    store: (attempt: SettlementAttempt) => Promise<boolean>,
  ): Promise<SettlementAttempt | undefined>
  /** Takes up what a former process signed, before anything new is. */
  adopt(attempts: readonly SettlementAttempt[]): Promise<void>
  /** It is mined: its nonce is used. */
  mined(attempt: SettlementAttempt): void
  /** Its bytes can do no good any more; its nonce still has to be used. */
  abandon(attempt: SettlementAttempt): void
  /** Something else used a nonce of ours: ask the chain again. */
  recheck(): void
  /** Sends again what the pool has lost. One at a time; never rejects. */
  repair(): Promise<void>
  /** Sends nothing more; resolves when nothing is being sent. */
  close(): Promise<void>
}

export function createSettlingAccount(options: SettlingAccountOptions): SettlingAccount {
  const { network, rpc, maxGas, log, currentFees } = options
  const account = privateKeyToAccount(options.privateKey as Hex)
  const chainId = Number(network.slice('eip155:'.length))
  const id = `evm:${network}:${account.address.toLowerCase()}`
  const countOf = async (block: string): Promise<number> => {
    const count = Number(quantity(await rpc.call('eth_getTransactionCount', account.address, block)))
    if (count <= mostTransactions) return count
    throw new RpcUnreachable(`the node says that the settling account has sent ${count} transactions`)
  }
  const queue = createNonceQueue(() => countOf('pending'))
  /** Signed bytes by nonce, until they are mined. */
  const live = new Map<number, string>()
  const abandoned = new Set<number>()
  let repairing: Promise<void> | undefined
  let isClosed = false

  const signed = async (
    call: EvmCall,
    nonce: number,
    gas: number,
    fees: Fees,
  ): Promise<SettlementAttempt> => {
    const bytes = await account.signTransaction({
      type: 'eip1559',
      chainId,
      nonce,
      gas: BigInt(gas),
      to: call.to as Hex,
      data: call.data as Hex,
      ...fees,
    })
    const hash = keccak256(Buffer.from(bytes.slice(2), 'hex'))
    return {
      settler: id,
      bytes,
      transaction: `0x${Buffer.from(hash).toString('hex')}`,
      sequence: String(nonce),
    }
  }

  /** Uses up a nonce whose transaction is pointless now: nothing to ourselves, at today's fees. */
  const fill = async (nonce: number): Promise<void> => {
    const fees = await currentFees()
    if (fees === undefined) return
    const filler = await signed({ to: account.address, data: '0x' }, nonce, 21_000, fees)
    const { taken } = await broadcast(rpc, filler.bytes)
    log.info({ network, nonce, taken }, 'filled an account nonce that no payment will use')
    if (taken === 'yes') {
      abandoned.delete(nonce)
      live.set(nonce, filler.bytes)
    }
  }

  const repairOnce = async (): Promise<void> => {
    const [mined, pooled] = [await countOf('latest'), await countOf('pending')]
    for (const nonce of live.keys()) if (nonce < mined) live.delete(nonce)
    for (const nonce of abandoned) if (nonce < mined) abandoned.delete(nonce)
    for (const nonce of [...live.keys(), ...abandoned].sort((a, b) => a - b)) {
      if (isClosed) return
      if (nonce < pooled) continue
      const bytes = live.get(nonce)
      if (bytes !== undefined) await broadcast(rpc, bytes)
      else if (abandoned.has(nonce)) await fill(nonce)
    }
  }

  const repair = (): Promise<void> => {
    repairing ??= repairOnce()
      .catch((error: unknown) =>
        log.warn({ network, error: String(error) }, 'could not look after account nonces'),
      )
      .finally(() => {
        repairing = undefined
      })
    return repairing
  }

  return {
    address: account.address,
    id,
    repair,
    get inFlight() {
      return live.size
    },
    async sign(call, fees, store) {
      let attempt: SettlementAttempt | undefined
      const isTaken = await queue.take(async (nonce) => {
        attempt = await signed(call, nonce, maxGas, fees)
        if (!(await store(attempt))) return false
        live.set(nonce, attempt.bytes)
        return true
      })
      return isTaken ? attempt : undefined
    },
    async adopt(attempts) {
      const bytesOf = new Map(attempts.map(({ sequence, bytes }) => [Number(sequence), bytes]))
      const highest = Math.max(-1, ...bytesOf.keys())
      if (highest < 0) return
      queue.raiseAbove(highest)
      for (const [nonce, bytes] of bytesOf) live.set(nonce, bytes)
      // Nothing of ours is on its way yet, so a nonce below that nobody stored is a gap that a resolved attempt left.
      const pooled = await countOf('pending').catch(() => highest)
      for (let nonce = pooled; nonce < highest; nonce++) if (!live.has(nonce)) abandoned.add(nonce)
      await repair()
    },
    mined({ sequence }) {
      live.delete(Number(sequence))
    },
    abandon({ sequence }) {
      if (!live.delete(Number(sequence)) && Number(sequence) >= (queue.next ?? 0)) return
      abandoned.add(Number(sequence))
    },
    recheck: () => queue.recheck(),
    async close() {
      isClosed = true
      await repairing
    },
  }
}
