import t from 'tap'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import { systemClock as clock } from '../../../../core/ports/clock.ts'
import {
  network,
  newAccount,
  recordOf,
  type SettlerFixture,
  seller,
  signPayment,
  startSettler,
} from '../../../../test/helpers/chains/evm/settler.ts'
import { openTestStore } from '../../../../test/helpers/store/testStore.ts'
import { transfersIn } from '../check/transferCalls.ts'
import { reasons } from '../reasons.ts'
import type { Hex } from '../rpc/nodes.ts'

/** Runs until all gas is used: for(;;){} */
const endless = '0x5b600056'

/** Six payments in one transaction, of which the second uses up the gas of the later ones. */
async function settleBroken(
  fixture: SettlerFixture,
  meanwhile: () => void,
  isStored: (attempt: SettlementAttempt, before: number) => boolean = () => true,
): Promise<{
  outcomes: SettleOutcome[]
  stored: SettlementAttempt[]
  identities: PaymentIdentity[]
  last: (SettlementAttempt | undefined)[]
}> {
  const { chain, settler, terms } = fixture
  const stored: SettlementAttempt[] = []
  const last: (SettlementAttempt | undefined)[] = []
  await settler.start([])
  const verified = []
  for (let i = 0; i < 6; i++) {
    const buyer = newAccount()
    await chain.mintUsdc(buyer.address, 10_000n)
    const payment = await signPayment(buyer, terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    verified.push({ payment, identity: checked.identity })
  }
  const holds = await Promise.all(
    verified.map(async ({ payment, identity }) => {
      const held = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!held.ok) throw new Error(held.message)
      return held.hold
    }),
  )
  await chain.rpc('anvil_setCode', verified[1]!.identity.payer, endless)
  meanwhile()
  const outcomes = await Promise.all(
    verified.map(({ payment, identity }, i) =>
      settler.settle(
        payment,
        terms,
        identity,
        async (attempt) => {
          stored.push(attempt)
          const before = last[i] === undefined ? 0 : 1
          last[i] = attempt
          if (!isStored(attempt, before)) throw new Error('the store has not said whether it is stored')
          return true
        },
        holds[i],
      ),
    ),
  )
  return { outcomes, stored, identities: verified.map(({ identity }) => identity), last }
}

const statuses = (outcomes: readonly SettleOutcome[]) => outcomes.map(({ status }) => status)
const allButTheSecond = ['settled', 'pending', 'settled', 'settled', 'settled', 'settled']

for (const [what, fault] of [
  ['answers nothing', { kind: 'refuse' }],
  ['is asked too often', { kind: 'http-status', status: 429, retryAfterSeconds: 1 }],
  ['is overloaded', { kind: 'http-status', status: 503 }],
] as const) {
  for (const times of [1, 12]) {
    t.test(
      `a node that ${what} ${times} times after a broken transaction loses nobody's payment`,
      async (t) => {
        const fixture = await startSettler(t)
        const { rpc, chain } = fixture
        const { outcomes, stored } = await settleBroken(fixture, () => {
          let isFirst = true
          rpc.onCall((method) => {
            if (!isFirst || !method.startsWith('eth_sendRawTransaction')) return
            isFirst = false
            rpc.add('eth_call', fault, times)
          })
        })
        t.ok(stored.some(({ bytes }) => transfersIn(bytes).length === 6))
        t.same(statuses(outcomes), allButTheSecond)
        t.equal(await chain.balanceUsdc(seller as Hex), 50_000n)
      },
    )
  }
}

t.test(
  'what a transaction of several left out costs its share of that, and what it is sent with alone, whoever finds that',
  async (t) => {
    const gasBook = openTestStore({ clock, storeClock: clock }).gas
    const fixture = await startSettler(t, { gasBook, receiptTimeoutMs: 1_000 })
    const { rpc, chain, settler, another } = fixture
    let from: string | undefined
    const balance = async () => BigInt(await chain.rpc<string>('eth_getBalance', from, 'latest'))
    from = (await settler.keys![0]!.readState()).address
    const before = await balance()
    const { outcomes, identities, last } = await settleBroken(fixture, () => {
      let isFirst = true
      rpc.onCall((method) => {
        if (!isFirst || !method.startsWith('eth_sendRawTransaction')) return
        isFirst = false
        rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
      })
    })
    const rows = identities.flatMap((identity, i): PaymentRecord[] => {
      const outcome = outcomes[i]!
      if (outcome.status !== 'pending' || outcome.reason !== reasons.pending) return []
      return [{ ...recordOf(identity, last[i]!), storeId: 'store', state: 'pending' }]
    })
    t.ok(rows.length > 0)
    rpc.clear()
    const other = another()
    await other.recover(rows)
    for (const [i, outcome] of (await other.recover(rows)).entries()) {
      t.equal(outcome.status, 'settled')
      other.booked!(rows[i]!, outcome)
    }
    await settler.forgetConcluded!(async () => rows.map((row) => ({ ...row, state: 'settled' })))
    await settler.close()
    await other.close()
    const [row] = await gasBook.read(network, 0)
    const tooMuch = (row?.spent ?? 0n) - (before - (await balance()))
    t.ok(tooMuch >= 0n && tooMuch < 6n, `${tooMuch} wei, by rounding six shares up`)
  },
)

t.test(
  'what is to be sent alone, and may be stored, stays open with nothing said of it: what it costs is counted once it is found',
  async (t) => {
    const fixture = await startSettler(t, { receiptTimeoutMs: 1_000 })
    const { outcomes, last } = await settleBroken(
      fixture,
      () => undefined,
      (_attempt, before) => before === 0,
    )
    const left = outcomes.flatMap((outcome, i) => (outcome.status === 'pending' && i !== 1 ? [i] : []))
    t.ok(left.length > 0)
    for (const i of left)
      t.match(outcomes[i], { reason: reasons.pending, transaction: last[i]!.transaction, message: undefined })
  },
)
