import t from 'tap'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { PaymentRequirements } from '../../../core/x402/types.ts'
import {
  alsoEachSecond,
  termsOf as anyTermsOf,
  newAccount,
  type SettlerFixture,
  signPayment,
  startSettler as startAnySettler,
} from '../../../test/helpers/chains/evm/settler.ts'
import { sendUsdc } from '../../../test/helpers/localnet/sendToken.ts'
import type { Hex } from './rpc/nodes.ts'

/** Timeouts are not what is tested here, and a busy machine takes long for so many at once. */
const startSettler: typeof startAnySettler = (t, changes, chainOptions) =>
  startAnySettler(t, { receiptTimeoutMs: 60_000, rpcTimeoutMs: 60_000, ...changes }, chainOptions)

/** Terms under which a payment does not expire before a busy machine has settled it. */
const termsOf: typeof anyTermsOf = (changes) => anyTermsOf({ maxTimeoutSeconds: 600, ...changes })

type Account = Parameters<typeof signPayment>[0]

/**
 * Verifies and settles payments at once, as concurrent calls would.
 * @returns how many sellers worked, and the outcomes
 */
async function payAtOnce(
  settler: Settler,
  terms: PaymentRequirements,
  payers: readonly Account[],
  whileSellersWork: () => Promise<unknown> = async () => undefined,
  from?: Hex,
) {
  const payments = await Promise.all(
    payers.map((payer) => signPayment(payer, terms, from === undefined ? {} : { from })),
  )
  const refused: string[] = []
  const verified = await Promise.all(
    payments.map(async (payment) => {
      const checked = await settler.check(payment, terms)
      if (!checked.ok) return void refused.push(checked.reason)
      const { identity } = checked
      const response = await settler.verify(payment, terms, identity, { storeId: 'store' })
      return response.ok ? { payment, identity, hold: response.hold } : void refused.push(response.reason)
    }),
  )
  const worked = verified.filter((one) => one !== undefined)
  await whileSellersWork()
  const outcomes = await Promise.all(
    worked.map(({ payment, identity, hold }) =>
      settler.settle(payment, terms, identity, async () => true, hold),
    ),
  )
  return { worked: worked.length, refused, statuses: outcomes.map(({ status }) => status) }
}

const weiOf = async ({ chain, settler }: SettlerFixture, spend: () => Promise<unknown>): Promise<bigint> => {
  const { settlingAddress } = { settlingAddress: await addressOf(settler) }
  const balance = async () => BigInt((await chain.rpc('eth_getBalance', settlingAddress, 'latest')) as string)
  const before = await balance()
  await spend()
  return before - (await balance())
}

/** The settling account, as a stored attempt names it. */
async function addressOf(settler: Settler): Promise<string> {
  const terms = termsOf()
  const payment = await signPayment(newAccount(), terms)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  let address = ''
  await settler.settle(payment, terms, checked.identity, async (attempt) => {
    address = attempt.settler.split(':').at(-1)!
    return false
  })
  return address
}

t.test(
  'a wallet with one atomic unit sends 60 payments at once: one seller works, and nothing reverts',
  async (t) => {
    const fixture = await startSettler(t)
    const { chain, settler, rpc } = fixture
    const poor = newAccount()
    await chain.mintUsdc(poor.address, 1n)
    const { worked, statuses, refused } = await payAtOnce(
      settler,
      termsOf({ amount: '1' }),
      Array(60).fill(poor),
    )
    t.equal(worked, 1)
    t.same(statuses, ['settled'])
    t.same([...new Set(refused)], ['payments_in_flight_exceed_balance'])
    t.equal(rpc.calls('eth_sendRawTransaction'), 1)
  },
)

t.test('a wallet that has enough for all of its payments makes them all at once', async (t) => {
  const { settler, buyer } = await startSettler(t, {}, alsoEachSecond)
  const { worked, refused, statuses } = await payAtOnce(settler, termsOf(), Array(60).fill(buyer))
  t.equal(worked, 60)
  t.same(refused, [])
  t.same(statuses, Array(60).fill('settled'))
})

t.test(
  'a payer who moves the money away while sellers work costs gas for as many as may fail, and no more',
  async (t) => {
    const fixture = await startSettler(t, { failureBudget: { failures: 5, windowMs: 600_000 } })
    const { chain, settler, rpc } = fixture
    const terms = termsOf()
    const mover = newAccount()
    await chain.mintUsdc(mover.address, 1_000_000n)
    const { statuses, refused } = await payAtOnce(settler, terms, Array(20).fill(mover), () =>
      sendUsdc(chain, mover.address, newAccount().address, 1_000_000n),
    )
    // Mined without effect. While the authorization is valid, any account may send it again.
    t.same(statuses, Array(5).fill('pending'))
    t.equal(refused.filter((reason) => reason === 'too_many_payments_in_flight').length, 15)
    await chain.mintUsdc(mover.address, 1_000_000n)
    const again = await payAtOnce(settler, terms, Array(20).fill(mover))
    t.same([...new Set(again.refused)], ['payer_failure_budget_exhausted'])
    t.equal(rpc.calls('eth_sendRawTransaction'), 5)
  },
)

t.test('fresh wallets that all move their money away end at what the store may cost in a day', async (t) => {
  const maxGasPerStoreAndDay = 3_000_000_000_000_000n
  const fixture = await startSettler(t, { maxGasPerStoreAndDay })
  const { chain, settler } = fixture
  const terms = termsOf()
  let worked = 0
  const lost = await weiOf(fixture, async () => {
    for (let wave = 0; wave < 6; wave++) {
      const wallets = Array.from({ length: 10 }, newAccount)
      await Promise.all(wallets.map(({ address }) => chain.mintUsdc(address, 10_000n)))
      const { statuses } = await payAtOnce(settler, terms, wallets, async () => {
        for (const { address } of wallets) await sendUsdc(chain, address, newAccount().address, 10_000n)
      })
      worked += statuses.filter((status) => status === 'pending').length
    }
  })
  t.ok(worked > 0, `${worked} failed`)
  t.ok(lost > 0n && lost <= maxGasPerStoreAndDay, `${lost} wei lost`)
})

t.test('a seller who buys from himself ends at what the store may cost in a day', async (t) => {
  const maxGasPerStoreAndDay = 1_500_000_000_000_000n
  const fixture = await startSettler(t, { maxGasPerStoreAndDay })
  const { chain, settler, buyer } = fixture
  const terms = termsOf({ amount: '1', payTo: buyer.address.toLowerCase() })
  let sold = 0
  const refusals = new Set<string>()
  const spent = await weiOf(fixture, async () => {
    for (let i = 0; i < 40; i++) {
      await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00')
      const { statuses, refused } = await payAtOnce(settler, terms, [buyer])
      sold += statuses.length
      for (const reason of refused) refusals.add(reason)
    }
  })
  t.ok(sold > 0 && sold < 40, `${sold} sales`)
  t.same([...refusals], ['store_gas_budget_exhausted'])
  t.ok(spent <= maxGasPerStoreAndDay, `${spent} wei spent`)
  t.match(await settler.diagnose(), [/store store has used up its gas of today/])
})

const word = (value: number): Hex => `0x${value.toString(16).padStart(64, '0')}`

/** Runtime code that responds to isValidSignature (or any call) with the magic word if `test` leaves a value other than 0. */
const walletSaying = (test: string): Hex => {
  // test PUSH1 there JUMPI, revert; there: PUSH4 magic PUSH1 e0 SHL, MSTORE, RETURN
  const there = (test.length / 2 + 6).toString(16).padStart(2, '0')
  return `0x${test}60${there}575f5ffd5b631626ba7e60e01b5f5260205ff3`
}

t.test(
  'a contract wallet that knows a simulation by its fees, its base fee or its sender is found out',
  async (t) => {
    const { chain, settler, rpc } = await startSettler(t)
    const terms = termsOf()
    const liars = {
      'no gas price': '3a15',
      'no base fee': '4815',
      'no sender': '3215',
    }
    for (const [what, test] of Object.entries(liars)) {
      const wallet = newAccount().address
      await chain.rpc('anvil_setCode', wallet, walletSaying(test))
      await chain.mintUsdc(wallet, 1_000_000n)
      const { worked } = await payAtOnce(settler, terms, [newAccount()], undefined, wallet)
      t.equal(worked, 0, what)
    }
    t.equal(rpc.calls('eth_sendRawTransaction'), 0)
  },
)

t.test('a contract wallet that tells them apart all the same costs no more than the budgets', async (t) => {
  const failures = 3
  const fixture = await startSettler(t, { failureBudget: { failures, windowMs: 600_000 } })
  const { chain, settler, rpc } = fixture
  const terms = termsOf()
  const wallet = newAccount().address
  // It accepts signatures while NUMBER < slot 0.
  await chain.rpc('anvil_setCode', wallet, walletSaying('5f544310'))
  await chain.mintUsdc(wallet, 10_000_000n)
  const height = Number(await chain.rpc('eth_blockNumber'))
  const setSlot = (value: number) => chain.rpc('anvil_setStorageAt', wallet, word(0), word(value))
  await setSlot(height + 1_000)
  const turn = () => setSlot(0)
  const { worked, statuses } = await payAtOnce(
    settler,
    terms,
    Array.from({ length: 20 }, newAccount),
    turn,
    wallet,
  )
  t.equal(worked, failures)
  t.same(statuses, Array(failures).fill('pending'))
  t.equal(rpc.calls('eth_sendRawTransaction'), failures)
  await setSlot(height + 1_000)
  const again = await payAtOnce(settler, terms, Array.from({ length: 20 }, newAccount), turn, wallet)
  t.same([...new Set(again.refused)], ['payer_failure_budget_exhausted'])
})

t.test('wallets without money use up nothing of what a store may cost in a day', async (t) => {
  // About ten settlements, because a slow node keeps fifty in flight.
  const fixture = await startSettler(t, { maxGasPerStoreAndDay: 6_000_000_000_000_000n })
  const { settler, rpc, buyer } = fixture
  const terms = termsOf()
  await settler.start([])
  rpc.resetCounters()
  const lift = rpc.add('eth_call', { kind: 'hold' }, 50)
  const poor = payAtOnce(settler, terms, Array.from({ length: 50 }, newAccount))
  await rpc.whenCalled('eth_call', 50)
  t.same((await payAtOnce(settler, terms, [buyer])).statuses, ['settled'])
  lift()
  t.same([...new Set((await poor).refused)], ['invalid_exact_evm_insufficient_balance'])
})
