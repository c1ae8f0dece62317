import t, { type Test } from 'tap'
import type { Link } from '../core/domain/link.ts'
import { type Exchange, type GatewayPhase, gatewayPhases, gatewayPlugin } from '../core/plugin/gateway.ts'
import { endOverdue, newCalls, runCall } from '../gateway/call.ts'
import { startGateway } from './helpers/gateway.ts'
import { callThrough, MemoryTransport } from './helpers/memoryTransport.ts'
import { noOptions } from './helpers/plugins.ts'
import { until } from './helpers/rawHttp.ts'
import { storedResponse } from './helpers/rows.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

const LONGEST_MS = 60_000

/** A link with one place at its seller's, in whose program a plugin answers when the test says so, or never. */
async function start(t: Test, phase: GatewayPhase | null, settle: Link['settle']) {
  const { promise: stuck, resolve: wake } = Promise.withResolvers<void>()
  const met = Promise.withResolvers<void>()
  let isStuck = phase !== null
  const woken: Promise<unknown>[] = []
  const plugin = gatewayPlugin({
    ...{ name: 'stuck', api: 1, options: noOptions, needs: ['payments'] },
    slots: phase === null ? {} : { [phase]: { mayRead: ['claim'] } },
    setup: (_options, { ports: { payments } }) => ({
      route: () => {
        async function wakeUp(x: Exchange): Promise<undefined> {
          await stuck
          const { claim } = x
          if (claim === null) return
          const verbs = [
            payments.verify(claim),
            payments.settle(claim, storedResponse),
            payments.record(claim),
          ]
          for (const verb of verbs) woken.push(t.rejects(verb as Promise<void>, /one that has ended/))
          payments.deliver(claim, 'delivered', storedResponse)
        }
        const hook = (x: Exchange) => {
          if (!isStuck) return
          isStuck = false
          met.resolve()
          return wakeUp(x)
        }
        return phase === null ? {} : { [phase]: hook }
      },
    }),
  })
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], extraPlugins: [plugin] })
  const seller = await startSeller(t, 'hello')
  const { path } = await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10', settle })
  const served = (await gateway.ports.links.served('demo', 'it'))!
  const uses = [
    { use: 'stuck' },
    { use: 'x402' },
    { use: 'replay-guard' },
    { use: 'upstream', with: { maxCallsPerOrigin: 1 } },
    { use: 'purchase-record' },
  ]
  const generation = await gateway.build(uses)
  const program = generation.compile(served)
  const calls = newCalls(gateway.ports.log)
  const call = (nonce: string) => {
    const transport = new MemoryTransport()
    const x = callThrough(transport, served, { paymentHeader: scriptedPayment(nonce, '100000') })
    runCall(x, program, generation, calls)
    return { transport, x }
  }
  return {
    ...{ settler, gateway, generation, underWay: calls.underWay, call, path, seller, met: met.promise },
    /** As if so much time had passed. */
    end: (afterMs: number) => endOverdue(calls, LONGEST_MS, performance.now() + afterMs),
    async wake() {
      wake()
      await until(() => phase === null || woken.length % 3 === 0)
      await Promise.all(woken)
      return woken.length
    },
    row: (x: Exchange) => gateway.store.ledger.find(x.payment!.identity.key),
  }
}

for (const settle of ['after', 'before'] as const) {
  for (const phase of gatewayPhases) {
    // What is charged first is streamed by then.
    if (settle === 'before' && phase === 'respond') continue
    t.test(
      `a hook that never answers in ${phase} ends its call, charged ${settle} the seller works`,
      async (t) => {
        const one = await start(t, phase, settle)
        const { settler, gateway, generation, underWay, call } = one
        const { transport, x } = call('n')
        await one.met
        one.end(LONGEST_MS / 2)
        t.equal(underWay.length, 1, 'it has time left')
        one.end(LONGEST_MS)
        t.equal(underWay.length, 0)
        const got = (await transport.ended)!
        const { error } = JSON.parse(got.body)
        const isCharged = settler.transfers.length > 0
        // For a payment that it has not checked, a call cannot claim that it was not charged.
        if (x.claim === null) t.notMatch(error.message, /You were not charged/)
        t.match(error, {
          code: isCharged && x.purchase === null ? 'settlement_pending' : 'call_timeout',
          message: isCharged || x.claim === null ? /do not pay again/ : /You were not charged/,
        })
        await until(() => generation.calls === 0)
        t.equal(settler.held, 0, 'its place among the payments on their way is free')
        const { claim } = x
        if (claim !== null) await until(() => !gateway.ports.payments.isUnderWay(claim.row))
        const left = claim === null ? undefined : await one.row(x)
        if (claim !== null) t.match(left, { lease: null })
        t.equal(await one.wake(), claim === null ? 0 : 3)
        t.strictSame(
          claim === null ? undefined : await one.row(x),
          left,
          'whoever wakes up late changes nothing',
        )
        t.equal(settler.transfers.length, isCharged ? 1 : 0)
        const asked = one.seller.requests.length
        const again = (await call('n').transport.ended)!
        const isOwed = settle === 'before' && isCharged && x.purchase !== null
        if (isOwed) t.match(JSON.parse(again.body), { error: { reason: 'charged_refund_owed' } })
        else t.equal(again.status, 200, again.body)
        t.equal(settler.transfers.length, 1)
        if (isOwed) t.equal(one.seller.requests.length, asked)
        const next = (await call('another').transport.ended)!
        t.equal(next.status, 200, 'its place at the seller is free')
        await generation.retire()
      },
    )
  }
}

t.test('a settlement that never answers is told as pending, and left to the recovery', async (t) => {
  for (const isOnChain of [true, false]) {
    const one = await start(t, null, 'after')
    const { settler, gateway, generation, call } = one
    const sent = Promise.withResolvers<void>()
    const chain = Promise.withResolvers<undefined>()
    settler.settleWith = async (transfer) => {
      if (isOnChain) transfer()
      sent.resolve()
      return chain.promise
    }
    const { transport, x } = call('n')
    await sent.promise
    one.end(LONGEST_MS)
    const got = (await transport.ended)!
    t.equal(got.status, 503)
    t.match(JSON.parse(got.body), { error: { code: 'settlement_pending' }, purchaseId: x.claim!.purchaseId })
    await until(() => !gateway.ports.payments.isUnderWay(x.claim!.row))
    const { key } = x.payment!.identity
    t.match(await gateway.store.ledger.find(key), { state: 'settling', hasResponse: true })
    t.match(await gateway.store.ledger.due({ states: ['settling'], limit: 10 }), [{ key }], 'at once')
    await generation.retire()
  }
})

t.test('a call that is ended while its settlement is being stored is not sent', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const stored = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const gateway = await startGateway(t, {
    settlers: [settler],
    adaptLedger: (ledger) => ({
      ...ledger,
      async apply(change) {
        if (change.to !== 'settling') return ledger.apply(change)
        const isDone = await ledger.apply(change)
        begun.resolve()
        await stored.promise
        return isDone
      },
    }),
  })
  await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10' })
  const served = (await gateway.ports.links.served('demo', 'it'))!
  const generation = await gateway.build(
    ['x402', 'replay-guard', 'upstream', 'purchase-record'].map((use) => ({ use })),
  )
  const program = generation.compile(served)
  const calls = newCalls(gateway.ports.log)
  const transport = new MemoryTransport()
  const x = callThrough(transport, served, { paymentHeader: scriptedPayment('n', '100000') })
  runCall(x, program, generation, calls)
  await begun.promise
  endOverdue(calls, LONGEST_MS, performance.now() + LONGEST_MS)
  t.match(JSON.parse((await transport.ended)!.body), { error: { code: 'settlement_pending' } })
  stored.resolve()
  await until(() => !gateway.ports.payments.isUnderWay(x.claim!.row))
  t.strictSame(settler.transfers, [])
  const { key } = x.payment!.identity
  await until(async () => (await gateway.store.ledger.find(key))?.state === 'rejected', 'it to be free again')
  t.match(
    await gateway.store.ledger.find(key),
    { attempt: null, hasResponse: false },
    'nobody sends it later',
  )
  await generation.retire()
})

t.test(
  'an answer on its way to somebody who takes it is not cut for its time, one that nobody takes is',
  async (t) => {
    const one = await start(t, 'respond', 'after')
    const { transport, x } = one.call('n')
    await one.met
    transport.begin(200, [])
    one.end(LONGEST_MS)
    t.equal(one.underWay.length, 1)
    transport.cutOff()
    one.end(LONGEST_MS)
    t.equal(one.underWay.length, 0)
    await until(() => one.generation.calls === 0)
    await until(async () => (await one.row(x))?.lease === null)
    t.match(await one.row(x), { state: 'settled', hasResponse: true }, 'and its buyer may come back for it')
    await one.generation.retire()
  },
)
