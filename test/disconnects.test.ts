import t, { type Test } from 'tap'
import { notCollected, paymentStates } from '../core/domain/payment.ts'
import { reaches, startPaid, stateOf } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { sellerOf } from './helpers/sellerOf.ts'

const plugins = [{ use: 'rate-limit' }, { use: 'x402' }, { use: 'replay-guard' }, { use: 'upstream' }]
const standard = [...plugins, { use: 'purchase-record' }]

/** A paid link whose seller answers when it is told to, and buyers who disconnect. */
async function start(t: Test, settle: 'after' | 'before', options: Parameters<typeof startPaid>[1] = {}) {
  const paid = await startPaid(t, { plugins: standard, ...options })
  const { gateway, call, transports } = paid
  const responses: (() => void)[] = []
  const state = { status: 200 }
  const seller = await sellerOf(t, (_req, res) => {
    responses.push(() => {
      res.writeHead(state.status, { 'content-type': 'application/json' }).end(`{"run":${responses.length}}`)
    })
  })
  const link = await gateway.addLink({ slug: 'slow', url: seller.url, price: '0.10', settle })
  /** Calls, and disconnects once that holds. */
  async function abort(when: () => boolean, init: RequestInit = {}, path = ''): Promise<void> {
    const nth = transports.length
    const leaving = new AbortController()
    const called = t.rejects(call(link.url + path, { ...init, signal: leaving.signal }))
    await until(() => transports.length > nth && when(), 'the moment to hang up')
    leaving.abort()
    await called
    await until(() => transports[nth]!.hasLeft, 'the gateway to see it')
  }
  const row = async () => (await gateway.store.ledger.list({ states: paymentStates, limit: 1 }))[0]!
  return { ...paid, seller, responses, state, link, abort: abort, row }
}

for (const settle of ['after', 'before'] as const) {
  for (const [name, path, init] of [
    ['a call', '', {}],
    ['a call below the link', '/rest?of=it', {}],
    ['a call with a body', '', { method: 'POST', body: '{"send":"mail"}' }],
  ] as const) {
    t.test(
      `${name} that its buyer repeats while the seller works is made once, settled ${settle}`,
      async (t) => {
        const { settler, seller, responses, link, abort, call, gateway, transports } = await start(t, settle)
        for (let nth = 1; nth <= 3; nth++)
          await abort(() => responses.length === 1 && transports.length === nth, init, path)
        const last = call(link.url + path, init)
        await until(() => transports.length === 4)
        responses[0]!()
        t.match(await last, { status: 200, body: { data: { run: 1 } } })
        await reaches(gateway, 'delivered')
        t.equal(seller.calls, 1)
        t.strictSame(settler.transfers, ['n'])
      },
    )
  }

  t.test(
    `an answer that its buyer hung up on is kept for the buyer's repeat, settled ${settle}`,
    async (t) => {
      const { settler, seller, responses, link, abort, call, row, gateway } = await start(t, settle)
      await abort(() => responses.length === 1)
      responses[0]!()
      await until(
        async () =>
          (await row()).hasResponse && (await row()).state === 'settled' && (await row()).lease === null,
      )
      t.match(await row(), { state: 'settled', errorReason: notCollected })
      t.match(await call(link.url, { headers: { 'x-forwarded-for': '192.0.2.9' } }), { status: 200 })
      await reaches(gateway, 'delivered')
      t.equal((await row()).errorReason, null, 'collected after all')
      t.equal(seller.calls, 1)
      t.equal(settler.transfers.length, 1)
    },
  )

  t.test(`an answer that is not collected counts as delivered after a day, settled ${settle}`, async (t) => {
    const { responses, abort, row, gateway } = await start(t, settle)
    await abort(() => responses.length === 1)
    responses[0]!()
    await until(async () => (await row()).errorReason === notCollected)
    await recoveryOf(gateway).round()
    t.equal(await stateOf(gateway), 'settled', 'it waits')
    await recoveryOf(gateway, 2).round()
    t.match(await row(), { state: 'delivered', errorReason: notCollected })
    const { purchaseId } = await row()
    t.match(await gateway.store.purchases.find(purchaseId), { status: 'delivered' })
  })

  t.test(
    `an answer that the gateway itself did not send is owed back after a day, settled ${settle}`,
    async (t) => {
      const { responses, call, transports, link, row, gateway } = await start(t, settle)
      const called = t.rejects(call(link.url))
      await until(() => responses.length === 1)
      if (settle === 'after') {
        // Charged by then: before that, a stop would free the payment.
        const { transport } = { transport: transports[0]! }
        const send = transport.send.bind(transport)
        Object.assign(transport, {
          send(...args: Parameters<typeof send>) {
            transport.cutOff()
            return send(...args)
          },
        })
      } else transports[0]!.cutOff()
      responses[0]!()
      await called
      await until(async () => (await row()).hasResponse && (await row()).lease === null)
      t.match(await row(), { state: 'settled', errorReason: null })
      await recoveryOf(gateway, 2).round()
      t.match(await row(), { state: 'refund_due', errorReason: 'never_delivered' })
    },
  )

  t.test(
    `sixty hang-ups with one payment end in 429, and the seller works once, settled ${settle}`,
    async (t) => {
      const { settler, responses, seller, call, link, transports } = await start(t, settle)
      let refused = 0
      for (let nth = 1; nth <= 60 && refused === 0; nth++) {
        const leaving = new AbortController()
        const called = call(link.url, { signal: leaving.signal }).then(
          ({ status }) => status,
          () => 0,
        )
        await until(() => responses.length === 1)
        const status = await Promise.race([called, until(() => transports.length === nth)])
        if (status === undefined) {
          leaving.abort()
          await called
          await until(() => transports[nth - 1]!.isClosed)
        } else refused = status
      }
      t.equal(refused, 429)
      responses[0]!()
      await until(() => settler.transfers.length === 1)
      t.equal(seller.calls, 1)
    },
  )
}

t.test('a buyer who hangs up before the request has reached the seller keeps the payment', async (t) => {
  for (const settle of ['after', 'before'] as const) {
    const { settler, seller, responses, link, abort, call, gateway } = await start(t, settle)
    const mayVerify = Promise.withResolvers<void>()
    settler.verifyWith = async () => {
      await mayVerify.promise
      return { ok: true }
    }
    await abort(() => settler.calls.verify === 1)
    mayVerify.resolve()
    await reaches(gateway, 'rejected')
    t.equal(seller.calls, 0, settle)
    t.equal(settler.transfers.length, 0)
    const bought = call(link.url)
    await until(() => responses.length === 1)
    responses[0]!()
    t.equal((await bought).status, 200)
    t.equal(settler.transfers.length, 1)
  }
})

t.test(
  'what fails after its buyer hung up costs nothing, and the same payment buys the call later',
  async (t) => {
    const { settler, responses, state, link, abort, call, gateway } = await start(t, 'after')
    state.status = 500
    await abort(() => responses.length === 1)
    responses[0]!()
    await reaches(gateway, 'rejected')
    t.equal(settler.transfers.length, 0)
    state.status = 200
    const bought = call(link.url)
    await until(() => responses.length === 2)
    responses[1]!()
    t.equal((await bought).status, 200)
  },
)

t.test('a gateway that stops waits for a call whose buyer hung up', async (t) => {
  const { settler, responses, abort, gateway } = await start(t, 'after', {
    options: { drainTimeoutMs: 60_000 },
  })
  await abort(() => responses.length === 1)
  let hasStopped = false
  const stopped = gateway.gateway.close().then(() => (hasStopped = true))
  await until(() =>
    fetch(gateway.url).then(
      () => false,
      () => true,
    ),
  )
  t.notOk(hasStopped)
  responses[0]!()
  await stopped
  t.equal(settler.transfers.length, 1)
})

t.test('a caller who waits for an answer and hangs up waits for nothing any more', async (t) => {
  const { responses, link, abort, call, gateway } = await start(t, 'after')
  const first = call(link.url)
  await until(() => responses.length === 1)
  await abort(() => true)
  await until(() => gateway.gateway.calls.counts().underWay === 1, 'the repeat to end')
  t.equal(gateway.gateway.calls.counts().left, 1)
  responses[0]!()
  t.equal((await first).status, 200)
})

t.test('a repeat that is hung up on while the store is asked waits for no other process', async (t) => {
  const { responses, link, call, gateway } = await start(t, 'after')
  const first = call(link.url)
  await until(() => responses.length === 1)
  const mayClaim = Promise.withResolvers<void>()
  const requested = Promise.withResolvers<void>()
  const other = await startPaid(t, {
    plugins: standard,
    store: gateway.store,
    adapt: (ports) => ({
      ...ports,
      payments: {
        ...ports.payments,
        async claim(...args) {
          requested.resolve()
          await mayClaim.promise
          return ports.payments.claim(...args)
        },
      },
    }),
  })
  const leaving = new AbortController()
  const repeated = t.rejects(other.call(other.gateway.url + link.path, { signal: leaving.signal }))
  await requested.promise
  leaving.abort()
  await repeated
  await until(() => other.transports[0]!.hasLeft, 'the gateway to see it')
  mayClaim.resolve()
  await until(() => other.gateway.gateway.calls.counts().underWay === 0, 'the repeat to end')
  t.equal(other.gateway.gateway.calls.counts().left, 1)
  responses[0]!()
  t.equal((await first).status, 200)
})
