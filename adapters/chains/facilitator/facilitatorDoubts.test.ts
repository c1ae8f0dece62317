import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { network, newAccount, recordOf, seller } from '../../../test/helpers/chains/evm/settler.ts'
import { type Routes, start, startFacilitator } from '../../../test/helpers/chains/facilitator/facilitator.ts'
import { paymentFor, setStage, terms } from '../../../test/helpers/chains/facilitator/referenceFacilitator.ts'
import { isOnChain, recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import { createEgress } from '../../egress/egress.ts'

t.test(
  'a settlement that never arrived is asked for again when the chain has nothing of it: charged once, asked a few times at most',
  async (t) => {
    const { chain, reference, buyer } = await setStage(t)
    let isDeaf = true
    const answered: Promise<unknown>[] = []
    const facilitator = await startFacilitator(t, {
      settle(body, response) {
        if (isDeaf) return void response.writeHead(502).end('<html>')
        const answer = fetch(`${reference.url}settle`, { method: 'POST', body: JSON.stringify(body) })
        answered.push(answer.then((one) => one.json()))
        return answered.at(-1)
      },
    })
    const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
    const { payment, identity } = await paymentFor(settler, buyer)
    const stored: SettlementAttempt[] = []
    const outcome = await settler.settle(payment, terms, identity, async (one) => stored.push(one) > 0)
    t.match(outcome, { status: 'pending' })
    const record = { ...recordOf(identity, stored[0]!), payload: JSON.stringify(payment) }
    const settles = () => facilitator.requests.filter(({ route }) => route === 'settle')
    const look = (tries: number) => recoverOne(settler, { ...record, tries })
    t.match(await look(0), { status: 'pending' })
    t.equal(settles().length, 1)
    isDeaf = false
    await chain.setAutomine(false)
    t.match(await look(1), { status: 'pending', recheckMs: 2_000 })
    while (answered.length === 0) await sleep(5)
    for (const tries of [1, 2, 3, 5, 30]) await look(tries)
    t.equal(settles().length, 2, 'not while it is being asked, and seldom')
    // What is left of its time is less by now, perhaps.
    const asked = settles().map(({ body }): object =>
      JSON.parse(JSON.stringify(body).replace(/("maxTimeoutSeconds":)\d+/g, '$10')),
    )
    t.match(asked[1], asked[0]!, 'the same payment on the same terms')
    await chain.setAutomine(true)
    await chain.mine()
    t.match(await Promise.all(answered), [{ success: true }])
    t.match(await look(4), { status: 'settled' })
    t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n)
  },
)

t.test('a buyer who comes back does not use up the times that a facilitator is asked again', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const facilitator = await startFacilitator(t, {
    settle: (_body, response) => void response.writeHead(502).end('<html>'),
  })
  const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
  const { payment, identity } = await paymentFor(settler, newAccount())
  const attempt = { settler: facilitator.url, bytes: '', transaction: '', sequence: null }
  const record = { ...recordOf(identity, attempt), payload: JSON.stringify(payment) }
  const settles = () => facilitator.requests.filter(({ route }) => route === 'settle').length
  let tries = 0
  /** The number of checks in half a minute if a buyer requests them all the time. */
  const polls = async (ageMs: number, expected: number) => {
    for (let i = 0; i < 15; i++) {
      await recoverOne(settler, { ...record, claimedAtMs: Date.now() - ageMs, tries: tries++ })
      if (i === 2) while (settles() < expected) await sleep(5)
    }
    t.equal(settles(), expected)
  }
  await polls(0, 1)
  await polls(31_000, 2)
  await polls(61_000, 3)
  await polls(120_000, 3)
})

t.test('what waited for a connection to the facilitator and never got one was not sent', async (t) => {
  const waiting: (() => void)[] = []
  const facilitator = await startFacilitator(t, {
    settle: () =>
      new Promise((resolve) =>
        waiting.push(() =>
          resolve({ success: false, errorReason: 'unexpected_error', transaction: '', network }),
        ),
      ),
  })
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  t.teardown(() => egress.close())
  const patient = await start(t, facilitator.url, { settleTimeoutMs: 60_000, egress })
  const hasty = await start(t, facilitator.url, { settleTimeoutMs: 500, egress })
  const settleBy = async (settler: typeof patient) => {
    const { payment, identity } = await paymentFor(settler)
    return settler.settle(payment, terms, identity, async () => true)
  }
  // One after the other until a call finds every connection taken.
  const sent: Promise<unknown>[] = []
  for (let seen = -1; seen < waiting.length; ) {
    seen = waiting.length
    sent.push(settleBy(patient))
    const giveUpAt = performance.now() + 1_000
    while (waiting.length === seen && performance.now() < giveUpAt) await sleep(5)
  }
  const asked = waiting.length
  t.ok(asked > 0 && sent.length === asked + 1, `${asked} connections`)
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => settleBy(hasty)))
  t.ok(outcomes.every(({ status }) => status === 'rejected'))
  t.equal(waiting.length, asked, 'none of them got through')
  const answering = setInterval(() => {
    for (const respond of waiting.splice(0)) respond()
  }, 20)
  t.teardown(() => clearInterval(answering))
  await Promise.all(sent)
})

t.test('an answer that leaves a doubt leaves the payment open', async (t) => {
  const hash = `0x${'ab'.repeat(32)}`
  const ok = { success: true, transaction: hash, network }
  const raw =
    (text: string, status = 200) =>
    (_: unknown, response: ServerResponse) =>
      void response.writeHead(status).end(text)
  const open: Record<string, Routes[string]> = {
    'a server error': raw('{"success":false,"errorReason":"invalid_payload","transaction":""}', 500),
    'no JSON': raw('<html>'),
    'a list': raw('[]'),
    nothing: raw(''),
    'a cut answer': (_, response) => void response.destroy(),
    'success with an error status': raw(JSON.stringify(ok), 400),
    'success without a transaction': () => ({ ...ok, transaction: '' }),
    'success with an odd transaction': () => ({ ...ok, transaction: '0x12' }),
    'success on another network': () => ({ ...ok, network: 'eip155:8453' }),
    'success for another payer': () => ({ ...ok, payer: '0x00000000000000000000000000000000000000aa' }),
    'success in words': () => ({ ...ok, success: 'true' }),
    pending: () => ({ success: false, errorReason: 'settlement_pending', transaction: hash, network }),
    'a failed transaction': () => ({
      success: false,
      errorReason: 'invalid_exact_evm_transaction_failed',
      transaction: '',
      network,
    }),
    'a refusal that names a transaction': () => ({
      success: false,
      errorReason: 'invalid_exact_evm_signature',
      transaction: hash,
    }),
    'a reason nobody knows': () => ({ success: false, errorReason: 'cosmic_rays', transaction: '' }),
    'no reason': () => ({ success: false, transaction: '' }),
  }
  for (const [what, route] of Object.entries(open)) {
    const facilitator = await startFacilitator(t, { settle: route })
    const settler = await start(t, facilitator.url)
    const { payment, identity } = await paymentFor(settler)
    t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'pending' }, what)
    t.equal(facilitator.requests.filter(({ route }) => route === 'settle').length, 1, 'settle is sent once')
  }
})

t.test('without a node the facilitator’s success counts, and a doubt stays open for good', async (t) => {
  const transaction = `0x${'ab'.repeat(32)}`
  const facilitator = await startFacilitator(t, { settle: () => ({ success: true, transaction, network }) })
  const settler = await start(t, facilitator.url)
  const { payment, identity } = await paymentFor(settler)
  t.match(await settler.settle(payment, terms, identity, async () => true), {
    status: 'settled',
    transaction,
  })
  const record = recordOf(
    identity,
    { settler: facilitator.url, bytes: '', transaction: '', sequence: null },
    transaction,
  )
  t.match(await recoverOne(settler, record), { status: 'pending' })
  t.equal(await isOnChain(settler, record), 'unknown')
  t.match(await settler.diagnose(), [/without rpcUrls/])
})
