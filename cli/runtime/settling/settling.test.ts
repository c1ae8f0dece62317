import t from 'tap'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createScriptedSettler, testAsset, testNetwork } from '../../../test/helpers/settler.ts'
import { SettlementClient } from './settlementClient.ts'
import { type SettlementRequest, type SettlementResponse, SettlementServer } from './settlementServer.ts'

const terms: PaymentRequirements = {
  scheme: 'exact',
  network: testNetwork,
  amount: '10',
  asset: testAsset,
  payTo: '0x1111111111111111111111111111111111111111',
  maxTimeoutSeconds: 60,
  extra: {},
}

/** A worker and its primary, with messages that are copied as between processes. */
function pair() {
  const settler = createScriptedSettler()
  const chains = { assets: [], settlers: [settler], settler: () => settler }
  const primary = new SettlementServer(chains, (message: SettlementResponse) => {
    queueMicrotask(() => worker.receive(structuredClone(message)))
  })
  const lines: string[] = []
  const worker = new SettlementClient((message: SettlementRequest) => {
    lines.push(message.type)
    queueMicrotask(() => primary.receive(structuredClone(message)))
  })
  const remote = worker.wrap(settler)
  const pay = (nonce: string) => {
    const payment: PaymentPayload = {
      x402Version: 2,
      scheme: 'exact',
      network: testNetwork,
      payload: { payer: '0x2222222222222222222222222222222222222222', nonce, value: '10' },
    }
    const checked = settler.check(payment, terms)
    if (checked instanceof Promise || !checked.ok) throw new Error('not a payment')
    return { payment, identity: checked.identity }
  }
  const verify = async (nonce: string) => {
    const { payment, identity } = pay(nonce)
    const verified = await remote.verify(payment, terms, identity, { storeId: 's' })
    if (!verified.ok) throw new Error(verified.message)
    return { payment, identity, hold: verified.hold }
  }
  return { settler, primary, worker, remote, lines, pay, verify }
}

const notified = () => new Promise(setImmediate)

t.test('a worker’s payment is held in the primary until it is settled or released', async (t) => {
  const { settler, remote, verify, lines } = pair()
  const released = await verify('1')
  const { payment, identity, hold } = await verify('2')
  t.equal(settler.held, 2)
  released.hold.release()
  released.hold.release()
  await notified()
  t.equal(settler.held, 1)
  t.match(await remote.settle(payment, terms, identity, async () => true, hold), { status: 'settled' })
  hold.release()
  await notified()
  t.equal(settler.held, 0)
  t.same(lines.filter((type) => type === 'release').length, 1)
})

t.test('a refusal reaches the worker whole, and a settler that breaks is an error there', async (t) => {
  const { settler, remote, pay } = pair()
  const refusal = {
    ok: false,
    reason: 'no',
    message: 'not now',
    transient: true,
    isPayersDoing: true,
  } as const
  settler.verifyWith = async () => refusal
  const { payment, identity } = pay('1')
  t.same(await remote.verify(payment, terms, identity, { storeId: 's' }), refusal)
  settler.verifyWith = () => Promise.reject(new Error('broke'))
  await t.rejects(remote.verify(payment, terms, identity, { storeId: 's' }), { message: 'broke' })
  t.equal(settler.held, 0)
})

t.test('a worker that dies gives back what was held for its calls, verified or being verified', async (t) => {
  const { settler, primary, remote, pay, verify } = pair()
  await verify('1')
  await verify('2')
  const requested = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<{ ok: true }>()
  settler.verifyWith = () => {
    requested.resolve()
    return answered.promise
  }
  const { payment, identity } = pay('3')
  void remote.verify(payment, terms, identity, { storeId: 's' })
  await requested.promise
  t.equal(settler.held, 2)
  primary.lost()
  t.equal(settler.held, 0)
  answered.resolve({ ok: true })
  await notified()
  t.equal(settler.held, 0)
})

t.test('a verification whose answer is lost is refused for now, and held no more', async (t) => {
  const { settler, worker, remote, pay } = pair()
  const { receive } = worker
  worker.receive = () => true
  const { payment, identity } = pay('1')
  const verified = remote.verify(payment, terms, identity, { storeId: 's' })
  await notified()
  t.equal(settler.held, 1)
  worker.refuseLate(60_000)
  t.equal(worker.waiting, 1, 'not before its time')
  worker.refuseLate(0)
  t.match(await verified, { ok: false, transient: true })
  await notified()
  t.equal(settler.held, 0)
  worker.receive = receive
  const { payment: other, identity: its } = pay('2')
  t.match(await remote.verify(other, terms, its, { storeId: 's' }), { ok: true })
})

t.test('a settlement whose question is lost ends unsettled, and stores nothing late', async (t) => {
  const { remote, verify } = pair()
  const { payment, identity } = await verify('1')
  const messages: { type: string; call?: number; ok?: boolean }[] = []
  const deaf = new SettlementClient((message) => void messages.push(message as never))
  const stored: unknown[] = []
  const settled = deaf.wrap(remote).settle(payment, terms, identity, async (attempt) => {
    stored.push(attempt)
    return true
  })
  deaf.endLate(60_000)
  t.equal(deaf.waiting, 1, 'not before its time')
  deaf.endLate(0)
  t.match(await settled, { status: 'rejected', transient: true })
  const { call } = messages[0]!
  deaf.receive({ type: 'store', call, turn: 1, attempt: { transaction: '0xa' } } as never)
  await notified()
  t.strictSame(stored, [])
  t.match(messages.at(-1), { type: 'stored', call, turn: 1, ok: false })
})

t.test('a settlement that was stored and has no outcome is pending', async (t) => {
  const { remote, verify } = pair()
  const { payment, identity } = await verify('1')
  let call = 0
  const deaf = new SettlementClient((message) => {
    if (message.type === 'settle') call = message.call
  })
  const settled = deaf.wrap(remote).settle(payment, terms, identity, async () => true)
  deaf.receive({ type: 'store', call, turn: 1, attempt: { transaction: '0xa' } } as never)
  await notified()
  deaf.endLate(0)
  t.match(await settled, { status: 'pending', transaction: '0xa' })
})

t.test('what a dead worker has not stored is not broadcast', async (t) => {
  const { settler, primary, remote, verify } = pair()
  const { payment, identity, hold } = await verify('1')
  const storing = Promise.withResolvers<void>()
  void remote.settle(
    payment,
    terms,
    identity,
    () => {
      storing.resolve()
      return new Promise<boolean>(() => {})
    },
    hold,
  )
  await storing.promise
  primary.lost()
  await notified()
  t.equal(settler.transfers.length, 0)
  t.equal(settler.held, 0)
})

t.test(
  'when whoever settles is gone, what it has not stored is refused for now, and nothing of it is stored later',
  async (t) => {
    const { settler, worker, remote, pay, verify } = pair()
    const { payment, identity, hold } = await verify('1')
    const reached = Promise.withResolvers<void>()
    Object.assign(settler, {
      settle() {
        reached.resolve()
        return new Promise(() => {})
      },
    })
    const settling = remote.settle(
      payment,
      terms,
      identity,
      async () => t.fail('nothing is to be stored'),
      hold,
    )
    await reached.promise
    settler.verifyWith = () => new Promise(() => {})
    const other = pay('2')
    const verifying = remote.verify(other.payment, terms, other.identity, { storeId: 's' })
    t.equal(worker.waiting, 2)
    worker.lost()
    t.match(await settling, { status: 'rejected', reason: 'settler_not_started', transient: true })
    t.match(await verifying, { ok: false, reason: 'settler_not_started', transient: true })
    t.equal(worker.waiting, 0)
    const attempt = { settler: settler.id, bytes: '0x', transaction: '0xa', sequence: '1' }
    worker.receive({ type: 'store', call: 2, turn: 1, attempt })
    await notified()
  },
)

t.test(
  'what is stored, or being stored, when whoever settles is gone is pending: it may be sent',
  async (t) => {
    for (const isStored of [true, false]) {
      const { worker, remote, verify } = pair()
      const { payment, identity, hold } = await verify('1')
      const requested = Promise.withResolvers<string>()
      const disk = Promise.withResolvers<boolean>()
      const settling = remote.settle(
        payment,
        terms,
        identity,
        (attempt) => {
          requested.resolve(attempt.transaction)
          return disk.promise
        },
        hold,
      )
      const transaction = await requested.promise
      worker.lost()
      disk.resolve(isStored)
      t.match(
        await settling,
        isStored ? { status: 'pending', transaction } : { status: 'rejected', transient: true },
      )
    }
  },
)

t.test('a no to other bytes leaves open what became of those that were stored before', async (t) => {
  const { settler, worker, remote, verify } = pair()
  const { payment, identity, hold } = await verify('1')
  const attempt = { settler: settler.id, bytes: '0x', transaction: '0xa', sequence: '1' }
  settler.settle = async (_payment, _terms, _identity, store) => {
    t.equal(await store(attempt), true)
    t.equal(await store({ ...attempt, transaction: '0xb' }), false)
    worker.lost()
    return new Promise(() => {})
  }
  const store = async ({ transaction }: { transaction: string }) => transaction === '0xa'
  t.match(await remote.settle(payment, terms, identity, store, hold), {
    status: 'pending',
    transaction: '0xa',
  })
})

t.test('what was verified for a question that was given up is held for nobody', async (t) => {
  const { settler, remote, worker, pay } = pair()
  const gate = Promise.withResolvers<{ ok: true }>()
  settler.verifyWith = () => gate.promise
  const { payment, identity } = pay('1')
  const verifying = remote.verify(payment, terms, identity, { storeId: 's' })
  await notified()
  worker.lost()
  t.match(await verifying, { ok: false, transient: true })
  gate.resolve({ ok: true })
  await notified()
  await notified()
  t.equal(settler.held, 0, 'whoever answers late is told to give it back')
})

t.test('no two questions of a process have one number, on whichever way they are asked', async (t) => {
  const { settler, pay } = pair()
  const calls: number[] = []
  for (const way of [0, 1].map(
    () => new SettlementClient((message) => calls.push((message as { call: number }).call)),
  )) {
    const { payment, identity } = pay('1')
    void way.wrap(settler).verify(payment, terms, identity, { storeId: 's' })
  }
  t.equal(calls.length, 2)
  t.not(calls[0], calls[1])
})

t.test('a contract call is sent by the process that settles, and its outcome comes back', async (t) => {
  const { settler, worker, remote: without } = pair()
  t.notOk(without.transact, 'a settler that sends no calls')
  const sent: unknown[] = []
  const done = { status: 'done', transaction: '0xa' } as const
  settler.transact = async (...args) => {
    sent.push(args)
    return done
  }
  const remote = worker.wrap(settler)
  const call = { to: testAsset, data: '0x12' }
  t.same(await remote.transact!(call, 's'), done)
  t.same(sent, [[call, 's']])
  settler.transact = () => Promise.reject(new Error('broke'))
  await t.rejects(remote.transact!(call, null), { message: 'broke' })
  t.equal(worker.waiting, 0)
})

t.test('a contract call without a response may have been sent', async (t) => {
  const { settler } = pair()
  settler.transact = async () => ({ status: 'done', transaction: '0xa' })
  const deaf = new SettlementClient(() => undefined)
  const { transact } = deaf.wrap(settler)
  const call = { to: testAsset, data: '0x12' }
  const late = transact!(call, null)
  deaf.endLate(60_000)
  t.equal(deaf.waiting, 1, 'not before its time')
  deaf.endLate(0)
  t.same(await late, { status: 'pending', transaction: '' })
  const lost = transact!(call, null)
  deaf.lost()
  t.same(await lost, { status: 'pending', transaction: '' })
})
