import { randomUUID } from 'node:crypto'
import { base58 } from '@scure/base'
import type { SolanaSettlerOptions } from '../../../../adapters/chains/solana/options.ts'
import { createSolanaSettler } from '../../../../adapters/chains/solana/settler.ts'
import type { Asset } from '../../../../core/domain/asset.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Hold, Settler } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { type LocalSolana, startLocalSolana } from '../../../../localnet/solana/startLocalSolana.ts'
import { samplePayment } from '../../../contracts/samples.ts'
import { type FaultyRpc, startFaultyRpc } from '../../localnet/startFaultyRpc.ts'
import { addressOf, type Cast, dollar2022, network, newCast, realPayment, termsOf, usdc } from './payments.ts'

/** A payment between its check and its end. */
export interface Prepared {
  readonly payment: PaymentPayload
  readonly terms: PaymentRequirements
  readonly identity: PaymentIdentity
  /** Of its verification. */
  readonly hold?: Hold
}

/** A local chain that moves only when told, a node that misbehaves on request, a settler, and a clock. */
export interface Stage {
  readonly chain: LocalSolana
  readonly rpc: FaultyRpc
  readonly cast: Cast
  readonly settler: Settler
  /** Milliseconds that the settler's clock is ahead. */
  ahead: number
  /** Another settler with the same key, as a process that takes over would have it. */
  another(options?: Partial<SolanaSettlerOptions>): Settler
  /** Signs a payment with the public client and checks it; throws the refusal. */
  pay(asset?: Asset): Promise<Prepared>
  /** Settles and keeps what was stored on the way. */
  settle(prepared: Prepared, settler?: Settler): Promise<Settled>
  /** Verifies it and gives it with its hold; throws the refusal. */
  verify(prepared: Prepared, settler?: Settler): Promise<Prepared>
  close(): Promise<void>
}

export interface Settled {
  readonly outcome: Awaited<ReturnType<Settler['settle']>>
  readonly record: PaymentRecord
}

export const startingTokens = 1_000_000n
export const startingLamports = 1_000_000_000n
export const price = 10_000n

/** Sets a stage with waits short enough for tests. */
export async function setStage(options: Partial<SolanaSettlerOptions> = {}): Promise<Stage> {
  const chain = await startLocalSolana({ slotMs: 0, confirmedAfterSlots: 0 })
  const rpc = await startFaultyRpc(chain.rpcUrl)
  const cast = newCast()
  chain.airdrop(addressOf(cast.feePayer), startingLamports)
  for (const { address } of [usdc, dollar2022]) {
    chain.mintToken(address, addressOf(cast.payer), startingTokens)
    chain.createAta(addressOf(cast.seller), address)
  }
  const settlers: Settler[] = []
  const another = (more: Partial<SolanaSettlerOptions> = {}) => {
    const settler = createSolanaSettler({
      network,
      rpcUrls: [rpc.url],
      privateKeys: [base58.encode(cast.feePayer.secretKey)],
      assets: [usdc, dollar2022],
      clock: { now: () => Date.now() + stage.ahead },
      confirmTimeoutMs: 1_500,
      firstPollMs: 10,
      pollMs: 30,
      ...options,
      ...more,
    })
    settlers.push(settler)
    return settler
  }
  const stage: Stage = {
    chain,
    rpc,
    cast,
    ahead: 0,
    get settler() {
      return settlers[0] ?? another()
    },
    another,
    async pay(asset = usdc) {
      const terms = termsOf(cast, asset)
      const payment = await realPayment(cast.payer, terms, chain.rpcUrl)
      const checked = await stage.settler.check(payment, terms)
      if (!checked.ok) throw new Error(`${checked.reason}: ${checked.message}`)
      return { payment, terms, identity: checked.identity }
    },
    async verify(prepared, settler = stage.settler) {
      const { payment, terms, identity } = prepared
      const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) throw new Error(`${verified.reason}: ${verified.message}`)
      return { ...prepared, hold: verified.hold }
    },
    async settle({ payment, terms, identity, hold }, settler = stage.settler) {
      const stored: SettlementAttempt[] = []
      const outcome = await settler.settle(
        payment,
        terms,
        identity,
        async (attempt) => {
          stored.push(attempt)
          return true
        },
        hold,
      )
      return { outcome, record: recordOf(payment, identity, stored[0] ?? null, outcome) }
    },
    async close() {
      await Promise.all(settlers.map((settler) => settler.close()))
      await rpc.close()
      await chain.close()
    },
  }
  return stage
}

/** Sets a stage that goes with the test. */
export async function staged(
  t: { teardown(close: () => Promise<void>): void },
  options: Partial<SolanaSettlerOptions> = {},
): Promise<Stage> {
  const stage = await setStage(options)
  t.teardown(stage.close)
  return stage
}

/** What the seller has by now. */
export const sold = ({ chain, cast }: Stage, asset = usdc) =>
  chain.balanceToken(asset.address, addressOf(cast.seller))

/** What the buyer has left. */
export const bought = ({ chain, cast }: Stage, asset = usdc) =>
  chain.balanceToken(asset.address, addressOf(cast.payer))

function recordOf(
  payment: PaymentPayload,
  identity: PaymentIdentity,
  attempt: SettlementAttempt | null,
  outcome: Settled['outcome'],
): PaymentRecord {
  const atMs = identity.validBeforeMs - 90_000
  return samplePayment(identity, {
    state: outcome.status === 'settled' ? 'settled' : 'pending',
    purchaseId: randomUUID(),
    payload: JSON.stringify(payment),
    attempt,
    transaction: outcome.status === 'settled' ? outcome.transaction : null,
    claimedAtMs: atMs,
    updatedAtMs: atMs,
  })
}
