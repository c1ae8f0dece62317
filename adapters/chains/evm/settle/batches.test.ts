import t from 'tap'
import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import {
  newAccount,
  recordOf,
  type SettlerFixture,
  seller,
  signPayment,
  startSettler,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { transfersIn } from '../check/transferCalls.ts'
import type { Hex } from '../rpc/nodes.ts'

interface Paying {
  readonly payment: PaymentPayload
  readonly identity: PaymentIdentity
}

type Store = (attempt: SettlementAttempt) => Promise<boolean>

/** Settles all payments at once as calls do, which verify first and then settle. */
async function settleAll(
  { settler, terms }: Pick<SettlerFixture, 'settler' | 'terms'>,
  payments: readonly Paying[],
  storeOf: (i: number) => Store,
  meanwhile: () => Promise<unknown> = async () => undefined,
): Promise<SettleOutcome[]> {
  const holds = await Promise.all(
    payments.map(async ({ payment, identity }) => {
      const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) throw new Error(verified.message)
      return verified.hold
    }),
  )
  await meanwhile()
  return Promise.all(
    payments.map(({ payment, identity }, i) =>
      settler.settle(payment, terms, identity, storeOf(i), holds[i]),
    ),
  )
}

/** Payments of different buyers, each with enough for one payment. */
async function paymentsOf({ chain, settler, terms }: SettlerFixture, count: number): Promise<Paying[]> {
  const payments: Paying[] = []
  for (let i = 0; i < count; i++) {
    const buyer = newAccount()
    await chain.mintUsdc(buyer.address, 10_000n)
    const payment = await signPayment(buyer, terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    payments.push({ payment, identity: checked.identity })
  }
  return payments
}

/** Keeps the last attempt of each payment, as the ledger does, and also all attempts. */
function keeping() {
  const kept: SettlementAttempt[] = []
  const all: SettlementAttempt[] = []
  const storeOf =
    (i: number): Store =>
    async (attempt) => {
      all.push(attempt)
      kept[i] = attempt
      return true
    }
  return { kept, all, storeOf }
}

const statuses = (outcomes: readonly SettleOutcome[]) => outcomes.map(({ status }) => status)
const all = (count: number, status: string) => Array(count).fill(status)

t.test('payments that come at once land in one transaction, and each has an event of its own', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler, rpc, pay } = fixture
  await settler.start([])
  const payments = await Promise.all(Array.from({ length: 20 }, () => pay()))
  const { kept, storeOf } = keeping()
  rpc.resetCounters()
  const outcomes = await settleAll(fixture, payments, storeOf)
  t.same(statuses(outcomes), all(20, 'settled'))
  t.equal(await chain.balanceUsdc(seller as Hex), 200_000n)
  t.equal(new Set(kept.map(({ bytes }) => bytes)).size, 1, 'the same bytes are stored for each of them')
  t.equal(new Set(kept.map(({ sequence }) => sequence)).size, 1)
  t.equal(rpc.calls('eth_sendRawTransaction'), 1)
  t.equal(
    new Set(outcomes.map((one) => one.status === 'settled' && `${one.transaction} ${one.event}`)).size,
    20,
  )
  t.same(
    settler.paymentsOf?.(kept[0]!).toSorted(),
    payments.map(({ identity }) => identity.key).toSorted(),
    'and the bytes say whose they are',
  )
})

t.test('a payment that is alone waits for nobody, and is sent as it always was', async (t) => {
  const fixture = await startSettler(t, { batchWindowMs: 60_000 })
  await fixture.settler.start([])
  const { kept, storeOf } = keeping()
  t.same(statuses(await settleAll(fixture, [await fixture.pay()], storeOf)), ['settled'])
  t.equal(transfersIn(kept[0]!.bytes).length, 1)
  t.match(kept[0]!.bytes, /e3ee160e/)
  t.notMatch(kept[0]!.bytes, /82ad56cb/)
})

t.test('of so many payments as a transaction may settle the last one waits for nobody', async (t) => {
  const fixture = await startSettler(t, { batchWindowMs: 60_000, maxPaymentsPerTransaction: 4 })
  await fixture.settler.start([])
  const payments = await paymentsOf(fixture, 8)
  const { kept, storeOf } = keeping()
  t.same(statuses(await settleAll(fixture, payments, storeOf)), all(8, 'settled'))
  t.same(
    [...Map.groupBy(kept, ({ bytes }) => bytes).values()].map(({ length }) => length),
    [4, 4],
  )
})

t.test('one that fails on chain has an outcome of its own, and takes nobody with it', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler } = fixture
  await settler.start([])
  const payments = await paymentsOf(fixture, 6)
  const { kept, storeOf } = keeping()
  const outcomes = await settleAll(fixture, payments, storeOf, () =>
    chain.setBlacklisted(payments[2]!.identity.payer as Hex, true),
  )
  t.equal(new Set(kept.map(({ bytes }) => bytes)).size, 1)
  t.same(statuses(outcomes), ['settled', 'settled', 'pending', 'settled', 'settled', 'settled'])
  t.match(outcomes[2], { reason: 'invalid_exact_evm_transaction_failed', message: /without this one/ })
  t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)

  // Recovery reports the same outcome, and finds the payment once it can land and another account has sent it.
  const record = recordOf(payments[2]!.identity, kept[2]!)
  t.match(await settler.recover([record]), [{ reason: 'invalid_exact_evm_transaction_failed' }])
})

t.test('what somebody else has brought is settled by that, and the others by ours', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler } = fixture
  await settler.start([])
  const payments = await paymentsOf(fixture, 4)
  const { storeOf, kept } = keeping()
  let observers = ''
  const outcomes = await settleAll(fixture, payments, storeOf, async () => {
    const { authorization: a, signature } = payments[1]!.payment.payload as {
      authorization: Record<string, string>
      signature: Hex
    }
    const { payCall } = await import('../check/transferCalls.ts')
    const { data } = payCall(chain.usdcAddress, { ...a, signature } as never, undefined)
    const [from] = await chain.rpc<[Hex]>('eth_accounts')
    observers = await chain.send({ from, to: chain.usdcAddress, data })
  })
  t.same(statuses(outcomes), all(4, 'settled'))
  const [ours, theirs] = [outcomes[0]!, outcomes[1]!]
  t.match(theirs, { transaction: observers })
  t.match(ours, { transaction: kept[0]!.transaction })
  t.equal(await chain.balanceUsdc(seller as Hex), 40_000n)
})

t.test(
  'bytes that a single payment of them is not stored for are never sent: the others go together without it',
  async (t) => {
    for (const no of [async () => false, () => Promise.reject(new Error('disk full'))]) {
      const fixture = await startSettler(t)
      const { chain, settler, rpc } = fixture
      await settler.start([])
      const payments = await paymentsOf(fixture, 5)
      const { kept, all: stored, storeOf } = keeping()
      const sent: unknown[] = []
      rpc.onCall((method, [bytes]) => {
        if (method.startsWith('eth_sendRawTransaction')) sent.push(bytes)
      })
      const outcomes = await settleAll(fixture, payments, (i) => (i === 3 ? no : storeOf(i)))
      t.same(statuses(outcomes), ['settled', 'settled', 'settled', 'rejected', 'settled'])
      t.match(outcomes[3], { transient: true })
      t.equal(await chain.balanceUsdc(payments[3]!.identity.payer as Hex), 10_000n, 'it was not charged')
      t.equal(await chain.balanceUsdc(seller as Hex), 40_000n)
      const withIt = stored.filter(({ bytes }) => transfersIn(bytes).length === 5)
      t.equal(withIt.length, 4)
      t.notOk(sent.includes(withIt[0]!.bytes), 'the bytes that would have charged it never left')
      t.same(
        kept.flatMap((attempt) => transfersIn(attempt.bytes).length),
        [4, 4, 4, 4],
      )
      t.equal(new Set(kept.map(({ sequence }) => sequence).filter(Boolean)).size, 1)
      await settler.close()
    }
  },
)

t.test('of those that went together twice in vain each goes alone', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler } = fixture
  await settler.start([])
  const payments = await paymentsOf(fixture, 5)
  const { kept, all: stored, storeOf } = keeping()
  const outcomes = await settleAll(fixture, payments, (i) => {
    const keep = storeOf(i)
    let turns = 0
    return async (attempt) => (i === 1 || (i === 2 && ++turns === 2) ? false : keep(attempt))
  })
  t.same(statuses(outcomes), ['settled', 'rejected', 'rejected', 'settled', 'settled'])
  t.equal(await chain.balanceUsdc(seller as Hex), 30_000n)
  const sizes = (i: number) =>
    stored.filter(({ bytes }) => bytes === kept[i]!.bytes).map(({ bytes }) => transfersIn(bytes).length)
  for (const i of [0, 3, 4]) t.same(sizes(i), [1])
})

t.test(
  'after a kill between store and broadcast the bytes of all are sent once, and all are settled',
  async (t) => {
    const fixture = await startSettler(t, { receiptTimeoutMs: 50 })
    const { chain, rpc, settler, another } = fixture
    await settler.start([])
    const payments = await paymentsOf(fixture, 6)
    const { kept, storeOf } = keeping()
    const heal = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    t.same(statuses(await settleAll(fixture, payments, storeOf)), all(6, 'pending'))
    await settler.close()
    heal()
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)

    const next = another()
    await next.start(kept.map((attempt) => ({ ...attempt, bytes: '' })))
    const records = payments.map(({ identity }, i) => recordOf(identity, kept[i]!))
    rpc.resetCounters()
    await next.recover(records)
    t.equal(rpc.calls('eth_sendRawTransaction'), 1)
    await chain.mine()
    t.same(statuses(await next.recover(records)), all(6, 'settled'))
    t.equal(await chain.balanceUsdc(seller as Hex), 60_000n)
  },
)

t.test(
  'a payment whose time is over does not take the account nonce from the others of its transaction',
  async (t) => {
    const fixture = await startSettler(t, { receiptTimeoutMs: 50, expiryMarginSeconds: 0 })
    const { chain, rpc, settler, another, buyer, terms } = fixture
    await settler.start([])
    const seconds = Math.floor(Date.now() / 1000)
    const payments: Paying[] = []
    for (const left of [20, 600, 600]) {
      const payment = await signPayment(buyer, terms, { validBefore: String(seconds + left) })
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(checked.message)
      payments.push({ payment, identity: checked.identity })
    }
    const { kept, storeOf } = keeping()
    const heal = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    await settleAll(fixture, payments, storeOf)
    await settler.close()
    heal()
    await chain.advanceTime(30)

    const next = another()
    await next.start(kept.map((attempt) => ({ ...attempt, bytes: '' })))
    const records = payments.map(({ identity }, i) => recordOf(identity, kept[i]!))
    t.same(statuses(await next.recover(records)), ['failed_final', 'pending', 'pending'])
    await chain.mine()
    t.same(statuses(await next.recover(records.slice(1))), ['settled', 'settled'])
  },
)

t.test('a chain without Multicall3 settles each by itself, and asks nothing more for it', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler, rpc } = fixture
  await chain.rpc('anvil_setCode', chain.multicall3Address, '0x')
  const requests = new Set<unknown>()
  rpc.onCall((method, [of]) => {
    if (method === 'eth_getCode') requests.add(of)
  })
  await settler.start([])
  const payments = await paymentsOf(fixture, 4)
  const { kept, storeOf } = keeping()
  t.same(statuses(await settleAll(fixture, payments, storeOf)), all(4, 'settled'))
  t.equal(new Set(kept.map(({ sequence }) => sequence)).size, 4)
  t.same([...requests], [chain.usdcAddress], 'whether a payer is a plain account does not matter')
})

/** Runs until all gas is used: for(;;){} */
const endless = '0x5b600056'

t.test(
  'an account that gets code after it was verified can use up the gas of its transaction, and nobody’s payment',
  async (t) => {
    const fixture = await startSettler(t)
    const { chain, settler } = fixture
    await settler.start([])
    const payments = await paymentsOf(fixture, 6)
    const { kept, storeOf, all: stored } = keeping()
    const outcomes = await settleAll(fixture, payments, storeOf, () =>
      // EIP-7702 allows this for any account. From now on the token asks the account's code.
      chain.rpc('anvil_setCode', payments[1]!.identity.payer, endless),
    )
    t.same(statuses(outcomes), ['settled', 'pending', 'settled', 'settled', 'settled', 'settled'])
    t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
    t.ok(stored.some(({ bytes }) => transfersIn(bytes).length === 6))
    t.equal(transfersIn(kept[5]!.bytes).length, 1, 'the last ones had no gas left, and were sent once more')

    const more = await paymentsOf(fixture, 3)
    const after = keeping()
    t.same(statuses(await settleAll(fixture, more, after.storeOf)), all(3, 'settled'))
    t.equal(new Set(after.kept.map(({ bytes }) => bytes)).size, 3, 'for a while each is sent alone')
  },
)

t.test('a contract wallet is never joined to others', async (t) => {
  const fixture = await startSettler(t)
  const { chain, settler, terms, buyer } = fixture
  await settler.start([])
  const payments = await paymentsOf(fixture, 3)
  const wallet = await chain.deploySmartWallet(buyer.address)
  await chain.mintUsdc(wallet, 10_000n)
  const payment = await signPayment(buyer, terms, { from: wallet })
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  payments.push({ payment, identity: checked.identity })
  const { kept, storeOf } = keeping()
  t.same(statuses(await settleAll(fixture, payments, storeOf)), all(4, 'settled'))
  t.same(
    kept.map(({ bytes }) => transfersIn(bytes).length),
    [3, 3, 3, 1],
  )
})

t.test(
  'a transaction of several that leaves the chain is sent again, and each is where it is found then',
  async (t) => {
    const fixture = await startSettler(t)
    const { chain, settler } = fixture
    await settler.start([])
    const payments = await paymentsOf(fixture, 5)
    const { kept, storeOf } = keeping()
    const outcomes = await settleAll(fixture, payments, storeOf)
    t.same(statuses(outcomes), all(5, 'settled'))
    await chain.reorg(1)
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)
    await chain.mine()
    const records = payments.map(({ identity }, i) => {
      const outcome = outcomes[i]!
      if (outcome.status !== 'settled') throw new Error('not settled')
      const { transaction, event, block } = outcome
      return { ...recordOf(identity, kept[i]!, transaction), event, block }
    })
    t.same(await settler.stillOnChain(records), all(5, 'no'))
    await settler.recover(records)
    await chain.mine()
    t.same(statuses(await settler.recover(records)), all(5, 'settled'))
    t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
  },
)
