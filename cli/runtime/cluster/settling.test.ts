import t from 'tap'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createScriptedSettler, testAsset, testNetwork } from '../../../test/helpers/settler.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { createWorkerSettling } from './settleForWorker.ts'
import { createPrimarySettling } from './settleInPrimary.ts'

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
  const primary = createWorkerSettling(chains, (message: FromPrimary) => {
    queueMicrotask(() => worker.receive(structuredClone(message)))
  })
  const said: string[] = []
  const worker = createPrimarySettling((message: FromWorker) => {
    said.push(message.type)
    queueMicrotask(() => primary.receive(structuredClone(message)))
  })
  const remote = worker.wrap(settler)
  const pay = (nonce: string) => {
    const payment: PaymentPayload = {
      ...{ x402Version: 2, scheme: 'exact', network: testNetwork },
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
  return { settler, primary, remote, said, pay, verify }
}

const told = () => new Promise(setImmediate)

t.test('a worker’s payment is held in the primary until it is settled or released', async (t) => {
  const { settler, remote, verify, said } = pair()
  const released = await verify('1')
  const { payment, identity, hold } = await verify('2')
  t.equal(settler.held, 2)
  released.hold.release()
  released.hold.release()
  await told()
  t.equal(settler.held, 1)
  t.match(await remote.settle(payment, terms, identity, async () => true, hold), { status: 'settled' })
  hold.release()
  await told()
  t.equal(settler.held, 0)
  t.same(said.filter((type) => type === 'release').length, 1)
})

t.test('a refusal reaches the worker whole, and a settler that breaks is an error there', async (t) => {
  const { settler, remote, pay } = pair()
  const refusal = { ok: false, reason: 'no', message: 'not now', transient: true } as const
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
  const asked = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<{ ok: true }>()
  settler.verifyWith = () => {
    asked.resolve()
    return answered.promise
  }
  const { payment, identity } = pay('3')
  void remote.verify(payment, terms, identity, { storeId: 's' })
  await asked.promise
  t.equal(settler.held, 2)
  primary.lost()
  t.equal(settler.held, 0)
  answered.resolve({ ok: true })
  await told()
  t.equal(settler.held, 0)
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
  await told()
  t.equal(settler.transfers.length, 0)
  t.equal(settler.held, 0)
})
