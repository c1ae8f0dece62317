import t from 'tap'
import { mnemonicToAccount } from 'viem/accounts'
import type { PaymentRecord, SettlementAttempt } from '../../../core/domain/payment.ts'
import { recoverShared } from '../../../core/payments/sharedBytes.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { LOCAL_EVM_MNEMONIC } from '../../../localnet/evm/startLocalEvm.ts'
import {
  network,
  newAccount,
  recordOf,
  remember,
  type SettlerFixture,
  signPayment,
  startSettler,
} from '../../../test/helpers/chains/evm/settler.ts'
import { recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { transfersIn } from './check/transferCalls.ts'

const settlingAddress = mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 3 }).address

const newBook = () => openTestStore({ clock, storeClock: clock }).gas

const balanceOf = async ({ chain }: SettlerFixture) =>
  BigInt(await chain.rpc<string>('eth_getBalance', settlingAddress, 'latest'))

/** Settles a payment whose call hears nothing of its receipt. @returns its row */
async function leaveOpen({ settler, pay, terms }: SettlerFixture): Promise<PaymentRecord> {
  const { payment, identity } = await pay()
  const verified = await settler.verify(payment, terms, identity, { storeId: 'shop' })
  if (!verified.ok) throw new Error(verified.message)
  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, remember(attempts), verified.hold)
  if (outcome.status !== 'pending') throw new Error(outcome.status)
  return { ...recordOf(identity, attempts.at(-1)!), storeId: 'shop', state: 'pending' }
}

for (const was of ['settles on', 'was killed'] as const)
  t.test(
    `what another process finds on chain costs its receipt’s fee, once, where the one that sent it ${was}`,
    async (t) => {
      const gasBook = newBook()
      const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 50 })
      const { chain, settler, another } = fixture
      const before = await balanceOf(fixture)
      await chain.setAutomine(false)
      const record = await leaveOpen(fixture)
      await chain.mine()
      const other = another()
      t.match(await recoverOne(other, record), { status: 'settled' })
      const settled = { ...record, state: 'settled' } as PaymentRecord
      // Once more, to be sure.
      t.match(await recoverOne(other, settled), { status: 'settled' })
      if (was === 'settles on') {
        await settler.forgetConcluded!(async () => [settled])
        await settler.close()
      }
      await other.close()
      const [row] = await gasBook.read(network, 0)
      t.equal(row?.storeId, 'shop')
      t.equal(row?.spent, before - (await balanceOf(fixture)))
    },
  )

t.test(
  'what somebody else has landed costs what ours may have to, in a process that has sent nothing',
  async (t) => {
    const gasBook = newBook()
    const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 50 })
    const { rpc, settler, another, buyer, terms } = fixture
    const lift = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
    const payment = await signPayment(buyer, terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    const attempts: SettlementAttempt[] = []
    t.match(await settler.settle(payment, terms, checked.identity, remember(attempts)), { status: 'pending' })
    await settler.close()
    lift()
    const observerKey = `0x${Buffer.from(mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 4 }).getHdKey().privateKey!).toString('hex')}`
    const observer = another({ privateKeys: [observerKey], gasBook: newBook(), receiptTimeoutMs: 5_000 })
    t.match(await observer.settle(payment, terms, checked.identity, async () => true), { status: 'settled' })
    const record = (attempt: SettlementAttempt | null, storeId: string): PaymentRecord => ({
      ...recordOf(checked.identity, attempt),
      storeId,
      state: 'pending',
    })
    const next = another()
    t.match(await recoverOne(next, record(attempts[0]!, 'shop')), { status: 'settled' })
    await next.close()
    const unsent = another()
    t.match(await recoverOne(unsent, record({ ...attempts[0]!, bytes: '' }, 'unsent')), { status: 'settled' })
    await unsent.close()
    const rows = await gasBook.read(network, 0)
    t.strictSame(
      rows.map(({ storeId }) => storeId),
      ['shop'],
      'what was never sent has cost nothing',
    )
    t.ok(rows[0]!.spent > 0n)
  },
)

for (const [what, spoil] of [
  ['a price that nobody has signed', { effectiveGasPrice: `0x8${'0'.repeat(63)}` }],
  ['an ether for the chain below', { l1Fee: '0xde0b6b3a7640000' }],
] as const)
  t.test(`a receipt with ${what} does not use up its store’s day`, async (t) => {
    const gasBook = newBook()
    const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 50 })
    const { chain, another, rpc } = fixture
    await chain.setAutomine(false)
    const record = await leaveOpen(fixture)
    await chain.mine()
    await chain.setAutomine(true)
    const other = another()
    await other.start([])
    const lift = rpc.add('eth_getTransactionReceipt', {
      kind: 'result',
      result: (real: unknown) => real && { ...real, ...spoil },
    })
    t.match(await recoverOne(other, record), { status: 'settled' })
    lift()
    const { payment, identity } = await fixture.pay()
    t.match(await other.verify(payment, fixture.terms, identity, { storeId: 'shop' }), { ok: true })
    const [row] = await gasBook.read(network, 0)
    t.ok(row!.spent > 0n, 'what it likely was is counted')
  })

t.test(
  'what a transaction of several has settled costs its share while one of them is not known in the books',
  async (t) => {
    const gasBook = newBook()
    const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 300 })
    const { chain, settler, another, terms } = fixture
    await settler.start([])
    const verified = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const buyer = newAccount()
        await chain.mintUsdc(buyer.address, 10_000n)
        const payment = await signPayment(buyer, terms)
        const checked = await settler.check(payment, terms)
        if (!checked.ok) throw new Error(checked.message)
        const { identity } = checked
        const held = await settler.verify(payment, terms, identity, { storeId: 'shop' })
        if (!held.ok) throw new Error(held.message)
        return { payment, identity, hold: held.hold }
      }),
    )
    await chain.setAutomine(false)
    const signed = await Promise.all(
      verified.map(async ({ payment, identity, hold }) => {
        const attempts: SettlementAttempt[] = []
        await settler.settle(payment, terms, identity, remember(attempts), hold)
        return { identity, attempt: attempts.at(-1)! }
      }),
    )
    await chain.mine()
    // Their process has ended, and the call of one payment has not been recovered yet.
    const rows = signed
      .filter(({ attempt }) => transfersIn(attempt.bytes).length > 1)
      .map(({ identity, attempt }, i): PaymentRecord => {
        const state = i === 0 ? 'settling' : 'pending'
        return { ...recordOf(identity, attempt), storeId: 'shop', state }
      })
    t.ok(rows.length > 1)
    const ledger = { find: async (key: string) => rows.find((row) => row.key === key) }
    const other = another()
    const found = await recoverShared(ledger, other, rows.slice(1))
    for (const [i, outcome] of found.entries()) {
      t.equal(outcome.status, 'settled')
      other.booked!(rows[i + 1]!, outcome)
    }
    await other.close()
    const [hash] = rows.map(({ attempt }) => attempt!.transaction)
    const { gasUsed, effectiveGasPrice } = await chain.rpc<Record<string, string>>(
      'eth_getTransactionReceipt',
      hash,
    )
    const [all, payments] = [BigInt(gasUsed!) * BigInt(effectiveGasPrice!), BigInt(rows.length)]
    const [row] = await gasBook.read(network, 0)
    t.equal(row?.spent, ((all + payments - 1n) / payments) * (payments - 1n))
  },
)

t.test('of two that find the same payment before either has booked it, one counts it', async (t) => {
  const gasBook = newBook()
  const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 50 })
  const { chain, another } = fixture
  const before = await balanceOf(fixture)
  await chain.setAutomine(false)
  const record = await leaveOpen(fixture)
  await chain.mine()
  const [first, second] = [another(), another()]
  const [[found], [same]] = await Promise.all([first.recover([record]), second.recover([record])])
  t.match([found, same], [{ status: 'settled' }, { status: 'settled' }])
  // The other's row write is refused.
  second.booked!(record, same!)
  await first.close()
  await second.close()
  t.equal((await gasBook.read(network, 0))[0]?.spent, before - (await balanceOf(fixture)))
})

t.test(
  'a call that hears of its receipt after somebody else has booked its payment counts nothing',
  async (t) => {
    const gasBook = newBook()
    const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 20_000 })
    const { chain, settler, another, pay, terms, rpc } = fixture
    const before = await balanceOf(fixture)
    await chain.setAutomine(false)
    const { payment, identity } = await pay()
    const verified = await settler.verify(payment, terms, identity, { storeId: 'shop' })
    if (!verified.ok) throw new Error(verified.message)
    const attempts: SettlementAttempt[] = []
    const settling = settler.settle(payment, terms, identity, remember(attempts), verified.hold)
    await rpc.whenCalled('eth_sendRawTransaction')
    const lift = rpc.add('eth_getTransactionReceipt', { kind: 'refuse' })
    await rpc.whenCalled('eth_getTransactionReceipt', 2)
    await chain.mine()
    const other = another({ rpcUrls: [chain.rpcUrl] })
    const row: PaymentRecord = { ...recordOf(identity, attempts[0]!), storeId: 'shop', state: 'pending' }
    t.match(await recoverOne(other, row), { status: 'settled' })
    lift()
    const late = await settling
    t.match(late, { status: 'settled' })
    settler.overtaken!(identity, late)
    settler.overtaken!(identity, late)
    await settler.close()
    await other.close()
    t.equal((await gasBook.read(network, 0))[0]?.spent, before - (await balanceOf(fixture)))
  },
)
