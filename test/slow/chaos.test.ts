import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { answerWell, responseStatus } from '../e2e/helpers/api.ts'
import { type Bought, newBuyer, present } from '../e2e/helpers/buyers.ts'
import { startChains } from '../e2e/helpers/chains.ts'
import { startProduct } from '../e2e/helpers/product.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import type { RpcFault } from '../helpers/localnet/startFaultyRpc.ts'

const payments = Number(process.env['TOLLGATE_CHAOS'] ?? 120)
const seed = Number(process.env['TOLLGATE_SEED'] ?? Date.now() % 1_000_000)

/** What a node may do to a call, and how often. */
const faults: readonly RpcFault[] = [
  { kind: 'drop-answer' },
  { kind: 'refuse' },
  { kind: 'http-status', status: 429, retryAfterSeconds: 1 },
  { kind: 'http-status', status: 503 },
  { kind: 'delay', ms: 300 },
  { kind: 'error', code: -32_603, message: 'internal error' },
  { kind: 'result', result: null },
]

t.test(`nodes that fail at random lose nothing and double nothing (seed ${seed})`, async (t) => {
  const chains = await startChains(t, { solana: { slotMs: 400 } })
  const short = { settleTimeoutMs: 1_500 }
  const product = await startProduct(t, { evm: short, solana: short }, chains)
  const { api, payTo, tollgate } = product
  const url = await product.addLink('chaos', '0.0001')
  const draw = (arbitrary: fc.Arbitrary<number>, i: number) =>
    fc.sample(arbitrary, { numRuns: 1, seed: seed + i })[0]!
  const buyers = await Promise.all(chains.both.map((chain) => newBuyer(chains, chain)))
  const work = await Promise.all(
    Array.from({ length: payments }, async (_, i) => {
      const target = `${url}?n=${i}`
      return { target, payment: await buyers[i % 2]!.sign(target) }
    }),
  )

  let isOver = false
  // Every seventh call, not now and then: half of twenty calls failed would suspend the link, rightly.
  let calls = 0
  api.answerWith((request, response) =>
    (calls++ % 7 === 0 ? responseStatus(500) : answerWell)(request, response),
  )
  /** Every few milliseconds another fault for the next call of some method. */
  const trouble = (async () => {
    for (let i = 0; !isOver; i++) {
      const chain = chains.both[i % 2]!
      const { broadcast, status, verify } = chain.methods
      const method = [broadcast, status, verify, '*'][draw(fc.nat(3), 2 * i)]!
      chain.rpc.add(method, faults[draw(fc.nat(faults.length - 1), 2 * i + 1)]!, 1)
      await sleep(25)
    }
    for (const chain of chains.both) chain.rpc.clear()
  })()

  /** As a patient buyer: the same payment, until there is an answer that is not about trouble, or the last one. */
  const buy = async ({ target, payment }: (typeof work)[number]): Promise<Bought> => {
    const deadline = performance.now() + 60_000
    for (;;) {
      const response = await present(target, payment)
      if (response.status < 500 || performance.now() > deadline) return response
      await sleep(50)
    }
  }
  const responses: Promise<Bought>[] = []
  for (const one of work) {
    const response = buy(one)
    response.catch(() => undefined)
    responses.push(response)
    await sleep(25)
  }
  isOver = true
  await trouble
  const final = await Promise.all(responses)

  t.strictSame(
    final.flatMap(({ status, text }, i) =>
      status === 200 ? [] : [{ target: work[i]!.target, status, text }],
    ),
    [],
    'everybody is answered in the end',
  )
  const ledger = await checkedLedger(tollgate.stack.store.purchases)
  t.match(ledger, {
    purchases: payments,
    unresolvedPayments: 0,
    refundDue: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
  const transfers = await Promise.all(chains.both.map((chain) => chain.transfersTo(payTo(chain))))
  t.strictSame(
    transfers.flat().sort(),
    ledger.transactions.map(({ transaction }) => transaction).sort(),
    'the transfers on chain are those in the ledger',
  )
  t.strictSame(
    (await product.doctor()).filter(({ ok }) => !ok),
    [],
  )
})
