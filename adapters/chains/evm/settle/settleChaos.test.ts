import fc from 'fast-check'
import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import type { RpcFault } from '../../../../localnet/startFaultyRpc.ts'
import { recoverOne } from '../../lookUpOne.fixture.ts'
import type { Hex } from '../rpc/hex.ts'
import { recordOf, seller, startSettler } from '../settler.fixture.ts'

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

/** A nonce that the store wanted nothing of is filled; the process is followed by another, and the filler leaves the chain. */
const takenBackAfterRestart: StepOf[] = [
  {
    ...{ payments: 2, storeSaysNo: true, method: 'eth_sendRawTransaction' },
    ...{ fault: { kind: 'drop-answer' }, times: 1, after: 'restart' },
  },
  {
    ...{ payments: 1, storeSaysNo: false, method: '*' },
    ...{ fault: { kind: 'http-status', status: 503 }, times: 1, after: 'restart' },
  },
  {
    ...{ payments: 1, storeSaysNo: false, method: 'eth_sendRawTransaction' },
    ...{ fault: { kind: 'http-status', status: 429 }, times: 2, after: 'nothing' },
  },
  {
    ...{ payments: 1, storeSaysNo: false, method: 'eth_sendRawTransaction' },
    ...{ fault: { kind: 'error', code: -32000, message: 'txpool is full' }, times: 3, after: 'reorg' },
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
        const wrong: string[] = []
        const expectKnown = (outcome: SettleOutcome, isStored: boolean) => {
          if ((outcome.status === 'rejected') === isStored)
            wrong.push(`${outcome.status}, stored: ${isStored}`)
          if (outcome.status === 'failed_final') wrong.push(`final: ${outcome.reason}`)
        }
        for (const { payments, storeSaysNo, method, fault, times, after } of steps) {
          const paying = await Promise.all(Array.from({ length: payments }, () => pay()))
          // A node that is behind is one thing; one that answers a question with another one's answer is none at all.
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
              expectKnown(outcome, stored.has(identity.key))
            }),
          )
          if (after === 'reorg') await chain.reorg(1)
          const last = [...stored.values()].at(-1)
          if (after === 'drop' && last) await chain.dropTransaction(last.attempt.transaction as Hex)
          if (after !== 'restart') continue
          await settler.close()
          settler = another()
          await settler.start([...stored.values()].map(({ attempt }) => attempt))
        }
        rpc.clear()
        // The recovery's looks, at every row: a reorganisation may have taken settled ones as well.
        const open = new Set(stored.values())
        for (let round = 0; round < 10 && open.size > 0; round++) {
          for (const one of open) {
            const outcome = await recoverOne(settler, recordOf(one.identity, one.attempt))
            if (outcome.status === 'failed_final') wrong.push(`final: ${outcome.reason}`)
            if (outcome.status === 'settled') open.delete(one)
          }
        }
        const received = await chain.balanceUsdc(seller as Hex)
        const spent = 5_000_000n - (await chain.balanceUsdc(buyer.address))
        await settler.close()
        await rpc.close()
        await chain.close()
        if (open.size > 0) wrong.push(`${open.size} never landed`)
        if (received !== BigInt(stored.size) * 10_000n || spent !== received) {
          wrong.push(`${stored.size} payments stored, ${received} received, ${spent} spent`)
        }
        if (wrong.length > 0) throw new Error(wrong.join('; '))
      }),
      {
        numRuns: 6,
        examples: [[takenBackAfterRestart]],
        ...(process.env['CHAOS_RUNS'] !== undefined && { numRuns: Number(process.env['CHAOS_RUNS']) }),
      },
    )
  },
)
