import t from 'tap'
import type { SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Hex } from '../rpc/hex.ts'
import { newAccount, type SettlerFixture, seller, signPayment, startSettler } from '../settler.fixture.ts'
import { transfersIn } from './transfersIn.ts'

/** Runs until there is no gas left: for(;;){} */
const endless = '0x5b600056'

/** Six payments in one transaction, of which the second uses up the gas of those after it. */
async function settleBroken(
  fixture: SettlerFixture,
  meanwhile: () => void,
): Promise<{ outcomes: SettleOutcome[]; stored: SettlementAttempt[] }> {
  const { chain, settler, terms } = fixture
  const stored: SettlementAttempt[] = []
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
          return true
        },
        holds[i],
      ),
    ),
  )
  return { outcomes, stored }
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
