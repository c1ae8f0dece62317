import fc from 'fast-check'
import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import { recordOf, seller, startSettler } from '../../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../../test/helpers/chains/recoverOne.ts'
import type { RpcFault } from '../../../../test/helpers/localnet/startFaultyRpc.ts'
import type { Hex } from '../rpc/nodes.ts'

const faults: readonly RpcFault[] = [
  { kind: 'drop-answer' },
  { kind: 'refuse' },
  { kind: 'http-status', status: 429 },
  { kind: 'http-status', status: 503 },
  { kind: 'error', code: -32005, message: 'limit exceeded' },
  { kind: 'error', code: -32000, message: 'txpool is full' },
  { kind: 'delay', ms: 30 },
  { kind: 'stale' },
]
const methods = [
  'eth_sendRawTransaction',
  'eth_getTransactionReceipt',
  'eth_getTransactionCount',
  'eth_getBlockByNumber',
  'eth_call',
  '*',
]
type StepOf = typeof step extends fc.Arbitrary<infer Value> ? Value : never
const step = fc.record({
  payments: fc.integer({ min: 1, max: 5 }),
  storeSaysNo: fc.boolean(),
  method: fc.constantFrom(...methods),
  fault: fc.constantFrom(...faults),
  times: fc.integer({ min: 1, max: 6 }),
  after: fc.constantFrom('nothing', 'restart', 'reorg', 'drop'),
})

/** A nonce whose attempt the store refused is filled. Another process then takes over, and a reorganization undoes the filler. */
const takenBackAfterRestart: StepOf[] = [
  {
    payments: 2,
    storeSaysNo: true,
    method: 'eth_sendRawTransaction',
    fault: { kind: 'drop-answer' },
    times: 1,
    after: 'restart',
  },
  {
    payments: 1,
    storeSaysNo: false,
    method: '*',
    fault: { kind: 'http-status', status: 503 },
    times: 1,
    after: 'restart',
  },
  {
    payments: 1,
    storeSaysNo: false,
    method: 'eth_sendRawTransaction',
    fault: { kind: 'http-status', status: 429 },
    times: 2,
    after: 'nothing',
  },
  {
    payments: 1,
    storeSaysNo: false,
    method: 'eth_sendRawTransaction',
    fault: { kind: 'error', code: -32000, message: 'txpool is full' },
    times: 3,
    after: 'reorg',
  },
]

/**
 * A reorganization undoes the filler of a former process and the only open payment above it. The lease holder has seen both on
 * chain, so it has no transaction in flight.
 */
const undoneWithNothingInFlight: StepOf[] = [
  {
    payments: 2,
    storeSaysNo: true,
    method: 'eth_sendRawTransaction',
    fault: { kind: 'drop-answer' },
    times: 1,
    after: 'restart',
  },
  {
    payments: 1,
    storeSaysNo: false,
    method: 'eth_getBlockByNumber',
    fault: { kind: 'error', code: -32005, message: 'limit exceeded' },
    times: 2,
    after: 'restart',
  },
  {
    payments: 1,
    storeSaysNo: true,
    method: 'eth_sendRawTransaction',
    fault: { kind: 'drop-answer' },
    times: 1,
    after: 'reorg',
  },
]

/** A store refuses one of two payments in a transaction, and no node responds when the other one is to be sent alone. */
const refusedTogether: StepOf[] = [
  {
    payments: 1,
    storeSaysNo: false,
    method: 'eth_getBlockByNumber',
    fault: { kind: 'http-status', status: 503 },
    times: 3,
    after: 'nothing',
  },
  {
    payments: 2,
    storeSaysNo: true,
    method: '*',
    fault: { kind: 'stale' },
    times: 4,
    after: 'nothing',
  },
]

t.test(
  'whatever the node does, each stored payment lands once in the end, and nothing else does',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 6 }), async (steps) => {
        const {
          chain,
          rpc,
          another,
          settler: first,
          buyer,
          pay,
          terms,
        } = await startSettler(t, {
          receiptTimeoutMs: 80,
          pollMs: 20,
          headMaxAgeMs: 0,
          strandedMs: 0,
        })
        let settler: Settler = first
        const stored = new Map<
          string,
          { identity: Awaited<ReturnType<typeof pay>>['identity']; attempt: SettlementAttempt }
        >()
        const settled = new Set<string>()
        const open = () => [...stored.values()].filter(({ identity }) => !settled.has(identity.key))
        // The ledger lists attempts without their bytes.
        const openAttempts = async () => open().map(({ attempt }) => ({ ...attempt, bytes: '' }))
        // As the lease holder's job does.
        const followUp = () => settler.keys![0]!.followUp!(openAttempts)
        const start = async () => {
          await settler.start(await openAttempts())
          await followUp()
        }
        await start()
        const wrong: string[] = []
        const expectKnown = (outcome: SettleOutcome, isStored: boolean) => {
          if ((outcome.status === 'rejected') === isStored)
            wrong.push(`${outcome.status}, stored: ${isStored}`)
          if (outcome.status === 'failed_final') wrong.push(`final: ${outcome.reason}`)
        }
        for (const { payments, storeSaysNo, method, fault, times, after } of steps) {
          const paying = await Promise.all(Array.from({ length: payments }, () => pay()))
          // A node may lag, but a node that returns the response to another request is broken.
          rpc.add(method === '*' && fault.kind === 'stale' ? 'eth_getBlockByNumber' : method, fault, times)
          await Promise.all(
            paying.map(async ({ payment, identity }, i) => {
              // What a node says yes to may be settled together with others.
              const verified = await settler.verify(payment, terms, identity, { storeId: '' })
              const store = async (attempt: SettlementAttempt) => {
                if (storeSaysNo && i === 0) return false
                stored.set(identity.key, { identity, attempt })
                return true
              }
              const hold = verified.ok ? verified.hold : undefined
              const outcome = await settler.settle(payment, terms, identity, store, hold)
              // A payment is freed whose shared transaction was stored, but not sent because another payment's store refused it.
              const isFreed = outcome.status === 'rejected' && stored.get(identity.key)?.attempt.isShared
              if (isFreed) stored.delete(identity.key)
              expectKnown(outcome, stored.has(identity.key))
            }),
          )
          if (after === 'reorg') await chain.reorg(1)
          const last = [...stored.values()].at(-1)
          if (after === 'drop' && last) await chain.dropTransaction(last.attempt.transaction as Hex)
          if (after !== 'restart') continue
          await settler.close()
          settler = another()
          await start()
        }
        rpc.clear()
        // Recovery checks every row, because a reorganization may also have undone settled payments.
        for (let round = 0; round < 10 && open().length > 0; round++) {
          for (const { identity, attempt } of open()) {
            const outcome = await recoverOne(settler, recordOf(identity, attempt))
            if (outcome.status === 'failed_final') wrong.push(`final: ${outcome.reason}`)
            if (outcome.status === 'settled') settled.add(identity.key)
          }
          await followUp()
        }
        const received = await chain.balanceUsdc(seller as Hex)
        const spent = 5_000_000n - (await chain.balanceUsdc(buyer.address))
        await settler.close()
        await rpc.close()
        await chain.close()
        if (open().length > 0) wrong.push(`${open().length} never landed`)
        if (received !== BigInt(stored.size) * 10_000n || spent !== received) {
          wrong.push(`${stored.size} payments stored, ${received} received, ${spent} spent`)
        }
        if (wrong.length > 0) throw new Error(wrong.join('; '))
      }),
      {
        numRuns: 6,
        examples: [[takenBackAfterRestart], [undoneWithNothingInFlight], [refusedTogether]],
        ...(process.env['CHAOS_RUNS'] !== undefined && { numRuns: Number(process.env['CHAOS_RUNS']) }),
      },
    )
  },
)
