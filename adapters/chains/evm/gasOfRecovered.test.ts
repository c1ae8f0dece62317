import t from 'tap'
import { mnemonicToAccount } from 'viem/accounts'
import type { PaymentRecord, SettlementAttempt } from '../../../core/domain/payment.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { LOCAL_EVM_MNEMONIC } from '../../../localnet/evm/startLocalEvm.ts'
import { createMemory } from '../../memory/store/memory.ts'
import { openMemory } from '../../memory/store/openMemory.ts'
import { recoverOne } from '../lookUpOne.fixture.ts'
import {
  network,
  recordOf,
  remember,
  type SettlerFixture,
  signPayment,
  startSettler,
} from './settler.fixture.ts'

const settlingAddress = mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 3 }).address

const newBook = () => openMemory({ memory: createMemory(clock), clock }).gas

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
      ...{ storeId, state: 'pending' },
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
