import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../core/ports/chains/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createScriptedSettler, testAsset, testNetwork, testPayTo } from '../../../test/helpers/settler.ts'
import { SettlementClient } from './settlementClient.ts'
import { type SettlementRequest, type SettlementResponse, SettlementServer } from './settlementServer.ts'

const terms: PaymentRequirements = {
  scheme: 'exact',
  network: testNetwork,
  asset: testAsset,
  amount: '10',
  payTo: testPayTo,
  maxTimeoutSeconds: 60,
  extra: {},
}

/** What happens to a message: it arrives, it is lost, or it arrives after messages that are sent later. */
type Delivery = 'comes' | 'lost' | 'late'

/** Two processes whose messages have these deliveries, in order. Further messages arrive. */
function pair(deliveries: readonly Delivery[]) {
  const settler = createScriptedSettler()
  const chains = { assets: [], settlers: [settler], settler: () => settler }
  const late: (() => void)[] = []
  let sent = 0
  const carry = (take: () => void) => {
    const delivery = deliveries[sent++] ?? 'comes'
    if (delivery === 'comes') queueMicrotask(take)
    if (delivery === 'late') late.push(take)
  }
  const server = new SettlementServer(
    chains,
    (message: SettlementResponse) => carry(() => client.receive(structuredClone(message))),
    60_000,
  )
  const client = new SettlementClient((message: SettlementRequest) =>
    carry(() => server.receive(structuredClone(message))),
  )
  return {
    settler,
    client,
    remote: client.wrap(settler),
    sendLate: () => late.splice(0).map((take) => take()),
  }
}

const notified = () => new Promise(setImmediate)

t.test('whatever messages are lost or late, who asks again has each payment settled once', async () => {
  const delivery = fc.constantFrom<Delivery>('comes', 'lost', 'late')
  await fc.assert(
    fc.asyncProperty(fc.array(delivery, { maxLength: 14 }), fc.boolean(), async (deliveries, storesAgain) => {
      const { settler, client, remote, sendLate } = pair(deliveries)
      // Like a transaction that is signed again: its bytes replace the earlier ones.
      const settle = settler.settle.bind(settler)
      const stored: string[] = []
      const sent: string[] = []
      Object.assign(settler, {
        async settle(...[payment, of, identity, store, hold]: Parameters<typeof settle>) {
          const attempt = { settler: 'scripted', bytes: '0x01', transaction: '0xfirst', sequence: '0' }
          if (storesAgain && !(await store(attempt)))
            return { status: 'rejected', reason: 'not_stored', message: 'not stored' }
          const outcome = await settle(payment, of, identity, store, hold)
          if (outcome.status === 'settled') sent.push(String(outcome.transaction))
          return outcome
        },
      })
      const payment: PaymentPayload = {
        x402Version: 2,
        scheme: 'exact',
        network: testNetwork,
        payload: { payer: '0x2222222222222222222222222222222222222222', nonce: '1', value: '10' },
      }
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(checked.message)
      const { identity } = checked
      const paid = remote.verify(payment, terms, identity, { storeId: 's' }).then(async (verified) => {
        if (!verified.ok) throw new Error(verified.message)
        const store = async (attempt: { transaction: string }) => {
          await notified()
          stored.push(attempt.transaction)
          return true
        }
        return remote.settle(payment, terms, identity, store, verified.hold)
      })
      let outcome: Awaited<typeof paid> | undefined
      void paid.then((ended) => {
        outcome = ended
      })
      // Each round loses at least one message where one is lost.
      for (let round = 0; outcome === undefined && round < 40; round++) {
        for (let i = 0; i < 4; i++) await notified()
        client.resend(0)
        await notified()
        sendLate()
      }
      const expected = `0x${identity.key}`
      if (outcome?.status !== 'settled' || outcome.transaction !== expected)
        throw new Error(`it came to ${JSON.stringify(outcome)}`)
      if (settler.transfers.length !== 1) throw new Error(`${settler.transfers.length} transfers`)
      if (stored.join() !== (storesAgain ? ['0xfirst', expected] : [expected]).join())
        throw new Error(`stored ${stored}, each once and in order`)
      if (sent.length !== 1) throw new Error('it was sent once')
      if (settler.held > 0) throw new Error('something is held for nobody')
      if (client.waiting > 0) throw new Error('somebody waits')
    }),
    { numRuns: 400 },
  )
})

t.test('what is not stored is not sent, whichever answer about other bytes comes late', async (t) => {
  // verify, verified, settle and store arrive; then the yes to store arrives late, and the second one is
  // rejected
  const { settler, client, remote, sendLate } = pair(['comes', 'comes', 'comes', 'comes', 'late'])
  const responses: boolean[] = []
  Object.assign(settler, {
    async settle(...[, , , store]: Parameters<typeof settler.settle>) {
      const attempt = (transaction: string) => ({
        settler: 'scripted',
        bytes: transaction,
        transaction,
        sequence: '0',
      })
      responses.push(await store(attempt('0xfirst')), await store(attempt('0xsecond')))
      return { status: 'pending', transaction: '0xsecond', reason: 'settlement_pending' }
    },
  })
  const payment: PaymentPayload = {
    x402Version: 2,
    scheme: 'exact',
    network: testNetwork,
    payload: { payer: '0x2222222222222222222222222222222222222222', nonce: '1', value: '10' },
  }
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const verified = await remote.verify(payment, terms, checked.identity, { storeId: 's' })
  if (!verified.ok) throw new Error(verified.message)
  const store = async ({ transaction }: { transaction: string }) => transaction === '0xfirst'
  const settled = remote.settle(payment, terms, checked.identity, store, verified.hold)
  await notified()
  client.resend(0)
  await notified()
  sendLate()
  await settled
  t.strictSame(responses, [true, false])
})

/** A payment that is verified, and a channel to the process that settles it, which may forget the sender. */
async function forgetting(t: Test, settle: (store: Store, nth: number) => Promise<SettleOutcome>) {
  const settler = createScriptedSettler()
  const chains = { assets: [], settlers: [settler], settler: () => settler }
  let settled = 0
  Object.assign(settler, {
    settle: (...[, , , store]: Parameters<typeof settler.settle>) => settle(store, ++settled),
  })
  let late: SettlementResponse[] | undefined
  const hear = (message: SettlementResponse) => queueMicrotask(() => client.receive(structuredClone(message)))
  const say = (message: SettlementResponse) => (late === undefined ? hear(message) : void late.push(message))
  const open = () => new SettlementServer(chains, say, 60_000)
  let server = open()
  const client = new SettlementClient((message) =>
    queueMicrotask(() => server.receive(structuredClone(message))),
  )
  const payment: PaymentPayload = {
    x402Version: 2,
    scheme: 'exact',
    network: testNetwork,
    payload: { payer: '0x2222222222222222222222222222222222222222', nonce: '1', value: '10' },
  }
  const remote = client.wrap(settler)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const { identity } = checked
  const verified = await remote.verify(payment, terms, identity, { storeId: 's' })
  if (!verified.ok) throw new Error(verified.message)
  const stored: string[] = []
  const store = async ({ transaction }: SettlementAttempt) => stored.push(transaction) > 0
  const outcome = remote.settle(payment, terms, identity, store, verified.hold)
  for (let i = 0; i < 4; i++) await notified()
  /** As if its lease had lapsed for a moment, and it sends again under the same one. */
  const forget = () => {
    server.lost()
    server = open()
    client.resend(0)
  }
  /** Messages take longer from now on. @returns a function that delivers some of them, in order */
  const holdUp = () => {
    const held: SettlementResponse[] = (late = [])
    return async (which: (message: SettlementResponse) => boolean) => {
      for (const message of held.filter(which)) {
        hear(message)
        await notified()
        await notified()
      }
    }
  }
  t.teardown(() => client.lost())
  return { stored, outcome, forget, holdUp, settled: () => settled }
}

type Store = (attempt: SettlementAttempt) => Promise<boolean>

const attempt = (transaction: string): SettlementAttempt => ({
  settler: 'scripted',
  bytes: transaction,
  transaction,
  sequence: '0',
})
const pendingOf = (transaction: string) =>
  ({ status: 'pending', transaction, reason: 'settlement_pending' }) as const

t.test('who asks again where it was forgotten has nothing signed anew of what is stored', async (t) => {
  const landing = Promise.withResolvers<SettleOutcome>()
  const { stored, outcome, forget, settled } = await forgetting(t, async (store, nth) => {
    await store(attempt(nth === 1 ? '0xfirst' : '0xsecond'))
    return nth === 1 ? landing.promise : pendingOf('0xsecond')
  })
  t.strictSame(stored, ['0xfirst'])
  forget()
  t.match(await outcome, pendingOf('0xfirst'), 'that it may be charged: the first one is on its way')
  t.strictSame(stored, ['0xfirst'])
  t.equal(settled(), 1)
})

t.test('a no of whoever has forgotten it says nothing of what was stored before', async (t) => {
  const landing = Promise.withResolvers<SettleOutcome>()
  const { outcome, forget } = await forgetting(t, async (store, nth) => {
    if (nth > 1) return { status: 'rejected', reason: 'in_flight', message: 'too many on their way' }
    await store(attempt('0xfirst'))
    return landing.promise
  })
  forget()
  t.match(await outcome, pendingOf('0xfirst'))
})

t.test('that the bytes of before are stored is not taken for a yes to those of now', async (t) => {
  const begin = Promise.withResolvers<void>()
  const responses: boolean[] = []
  const { stored, outcome, forget, holdUp } = await forgetting(t, async (store, nth) => {
    if (nth === 1) await begin.promise
    responses[nth] = await store(attempt(nth === 1 ? '0xfirst' : '0xsecond'))
    return { status: 'rejected', reason: 'not_stored', message: 'not stored' }
  })
  const rounds = async () => {
    for (let i = 0; i < 4; i++) await notified()
  }
  const come = holdUp()
  begin.resolve()
  await rounds()
  forget()
  await rounds()
  // The first bytes are requested now, and their yes arrives while the second ones wait for theirs.
  await come(({ type }) => type === 'store')
  t.strictSame(stored, ['0xfirst'])
  t.strictSame(responses.slice(1), [false, false])
  t.match(await outcome, pendingOf('0xfirst'))
})
